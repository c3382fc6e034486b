// The frames between relay and agent, there and back with random content: no part of an answer is taken for an answer.
import fc from 'fast-check';
import t from 'tap';
import {
  ANSWER_HEADER_BYTES,
  decodeAnswer,
  encodeAnswer,
  encodeAnswerInto,
  encodeRequest,
  MARKER_REFUSED,
  MARKER_TAKEN,
  STDERR_BYTES_MAX,
  STDOUT_BYTES_MAX,
} from '../../src/cni/relay-frame.ts';

const taken = Buffer.of(MARKER_TAKEN);

t.test('encodeRequest() writes magic, version and lengths little-endian, then both parts', (t) => {
  const bytes = encodeRequest({ CNI_COMMAND: 'ADD', PATH: '/bin' }, Buffer.from('{}'));
  t.equal(bytes.toString('latin1'), 'AERL\x01\0\0\0\x10\0\0\0\x02\0\0\0CNI_COMMAND=ADD\0{}');
  t.end();
});

t.test('decodeAnswer() reads what encodeAnswer() wrote, and no part of it as an answer', (t) => {
  fc.assert(
    fc.property(fc.uint8Array(), fc.uint8Array(), fc.nat(255), (out, err, exitCode) => {
      const given = { stdout: Buffer.from(out), stderr: Buffer.from(err), exitCode };
      const bytes = encodeAnswer(given);
      if (!Buffer.concat([taken, encodeAnswer(given, true)]).equals(bytes)) return false;
      for (let cut = 1; cut < bytes.length; cut++) {
        if (decodeAnswer(bytes.subarray(0, cut)).kind !== 'taken') return false;
      }
      if (decodeAnswer(Buffer.concat([bytes, taken])).kind !== 'broken') return false;
      const answer = decodeAnswer(bytes);
      return (
        answer.kind === 'answer' &&
        answer.stdout.equals(out) &&
        answer.stderr.equals(err) &&
        answer.exitCode === exitCode
      );
    }),
  );
  t.pass('for any texts and exit code');
  t.end();
});

t.test('decodeAnswer() tells apart nothing, refused and broken', (t) => {
  const long = Buffer.alloc(ANSWER_HEADER_BYTES, MARKER_TAKEN);
  long.writeUInt32LE(STDOUT_BYTES_MAX + 1, 2);
  const cases: readonly [string, Buffer, string][] = [
    ['no byte', Buffer.alloc(0), 'nothing'],
    ['refused', Buffer.of(MARKER_REFUSED), 'refused'],
    ['more after refused', Buffer.of(MARKER_REFUSED, 0), 'broken'],
    ['marker', taken, 'taken'],
    ['no marker of ours', Buffer.from('H'), 'broken'],
    ['a length above the bound', long, 'broken'],
  ];
  for (const [name, bytes, kind] of cases) t.equal(decodeAnswer(bytes).kind, kind, name);
  t.end();
});

t.test('encodeAnswerInto() writes what encodeAnswer() gives, where it has room enough', (t) => {
  const room = Buffer.alloc(200, 0xff);
  const text = fc.string({ unit: 'binary', maxLength: 60 });
  fc.assert(
    fc.property(
      text,
      fc.option(text, { nil: undefined }),
      fc.nat(255),
      fc.boolean(),
      (stdout, stderr, exitCode, isSent) => {
        const answer = { stdout, exitCode, ...(stderr === undefined ? {} : { stderr }) };
        const whole = encodeAnswer(answer, isSent);
        const length = encodeAnswerInto(answer, { room, isSent });
        if (length === undefined)
          return ANSWER_HEADER_BYTES + 3 * (stdout.length + (stderr ?? '').length) > room.length;
        return room.subarray(0, length).equals(whole);
      },
    ),
  );
  const bytes = { stdout: Buffer.alloc(1), exitCode: 0 };
  t.equal(encodeAnswerInto(bytes, { room, isSent: false }), undefined, 'no text');
  t.throws(() => encodeAnswerInto({ stdout: '', exitCode: 256 }, { room, isSent: false }), { code: 'E_INTERNAL' });
  t.end();
});

t.test('encodeAnswer() refuses what no frame holds, and cuts warnings', (t) => {
  for (const exitCode of [-1, 256, 0.5, Number.NaN]) {
    t.throws(() => encodeAnswer({ stdout: '', exitCode }), { code: 'E_INTERNAL' }, `exit code ${exitCode}`);
  }
  t.throws(() => encodeAnswer({ stdout: Buffer.alloc(STDOUT_BYTES_MAX + 1), exitCode: 0 }), { code: 'E_INTERNAL' });
  const answer = decodeAnswer(encodeAnswer({ stdout: '', stderr: 'x'.repeat(STDERR_BYTES_MAX + 1), exitCode: 0 }));
  t.equal(answer.kind === 'answer' && answer.stderr.length, STDERR_BYTES_MAX);
  t.end();
});
