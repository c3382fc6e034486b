// A configuration that is told from those of earlier calls reads as one that nobody has seen.
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import t from 'tap';
import { readCallConfig } from '../../src/cni/call-config.ts';
import { findMember } from '../../src/cni/json.ts';
import { decodeNetConfig, type NetConfigReading, readNetConfig } from '../../src/cni/net-config.ts';
import { DecodeError, messageOf } from '../../src/core/errors.ts';

const ANNOTATIONS = 'io.kubernetes.cri.pod-annotations';
const read = (text: string) => readCallConfig(Buffer.from(text));
const pathsOf = ({ problems }: NetConfigReading): string[] => problems.map(({ path }) => path);

// By the reader that keeps nothing.
function readAfresh(text: string): ReturnType<typeof read> {
  const source = decodeNetConfig(Buffer.from(text));
  return { version: findMember(source.root, 'cniVersion')?.value, ...readNetConfig(source) };
}

function outcomeOf(read: () => ReturnType<typeof readCallConfig>): unknown {
  try {
    const { version, ...reading } = read();
    // Where it stood is of the text that was kept.
    return { ...reading, version: version?.kind === 'string' ? version.value : version?.kind };
  } catch (error) {
    return messageOf(error);
  }
}

const RESULT = { cniVersion: '1.0.0', ips: [{ address: '10.0.0.1/16' }], interfaces: [{ name: 'eth0' }] };
const KEYS = ['cniVersion', 'name', 'log_level', 'prevResult', 'runtimeConfig', 'cni.dev/attachments', 'x', 'type'];
const RUNTIME_KEY = /^(prev|runtime|cni\.)/;
const value = fc.oneof(
  fc.jsonValue({ maxDepth: 2 }),
  fc.constantFrom(RESULT, { ...RESULT, ips: [{ address: 'x' }] }, { [ANNOTATIONS]: { a: '1' } }, { [ANNOTATIONS]: [] }),
);
const members = fc.array(fc.tuple(fc.constantFrom(...KEYS), value), { maxLength: 6 });
const blank = fc.constantFrom('', '', ' ', '\n');
/** Other values and blanks, and something put in or cut off. */
const change = fc.record({
  values: fc.array(value, { minLength: 6, maxLength: 6 }),
  gap: blank,
  at: fc.nat(),
  put: fc.constantFrom('', '', '', ' ', ',', '}', '"', '1', '{', '"prevResult":1,', '\u0001'),
  cut: fc.constantFrom(0, 0, 0, 1, 9),
});

function write(all: readonly (readonly [string, unknown])[], gap: string): string {
  return `{${all.map(([key, value]) => `"${key}":${gap}${JSON.stringify(value)}${gap}`).join(',')}}`;
}

t.test('readCallConfig() reads a text as if it had seen no other', (t) => {
  let taken = 0;
  fc.assert(
    fc.property(members, blank, fc.array(change, { maxLength: 3 }), (first, gap, changes) => {
      const texts = [write(first, gap)];
      for (const { values, gap, at, put, cut } of changes) {
        const next = first.map(([key, value], i) => [key, RUNTIME_KEY.test(key) ? values[i] : value] as const);
        const text = write(next, gap);
        const place = at % (text.length + 1);
        texts.push(text.slice(0, place) + put + text.slice(place + cut));
      }
      return texts.every((text) => {
        const outcome = outcomeOf(() => read(text));
        if (typeof outcome !== 'string') taken++;
        return isDeepStrictEqual(
          outcome,
          outcomeOf(() => readAfresh(text)),
        );
      });
    }),
    { numRuns: 2000 },
  );
  t.ok(taken > 500, 'and many were right');
  t.end();
});

t.test("readCallConfig() reads the runtime's part anew where the rest is as before", (t) => {
  const readMore = (more: object) => read(JSON.stringify({ name: 'again', agent_timeout_ms: 7, nobody: 1, ...more }));
  const annotations = (value: string) => ({ runtimeConfig: { [ANNOTATIONS]: { a: value } } });
  const [first, second, third] = [readMore(annotations('1')), readMore(annotations('2')), readMore({ prevResult: 3 })];
  t.same(
    [first, second, third].map(({ config }) => config.podAnnotations),
    [{ a: '1' }, { a: '2' }, {}],
  );
  t.strictSame(pathsOf(third), ['prevResult']);
  t.strictSame(
    [first, third].map(({ warnings }) => warnings.map(({ path }) => path)),
    [['nobody'], ['nobody']],
  );
  t.equal(readMore({ agent_timeout_ms: 8 }).config.agentTimeoutMs, 8);
  t.end();
});

t.test('readCallConfig() gives the very same for a text without anything of the runtime', (t) => {
  const readMore = (more: object) => read(JSON.stringify({ cniVersion: '1.1.0', name: 'a', ...more }));
  const first = readMore({});
  readMore({ agent_timeout_ms: 'soon', other: 1 });
  t.equal(readMore({}), readMore({}));
  t.strictSame(readMore({}), first);
  const result = { prevResult: { cniVersion: '1.1.0', ips: [] } };
  t.not(readMore(result), readMore(result), 'a pod’s is its own');
  t.end();
});

t.test('readCallConfig() tells a mistake each time', (t) => {
  t.throws(() => read('{'), DecodeError);
  t.throws(() => read('{'), DecodeError);
  const faulty = '{"name":"a","agent_timeout_ms":"soon"}';
  t.strictSame(pathsOf(read(faulty)), ['agent_timeout_ms']);
  t.strictSame(pathsOf(read(faulty)), ['agent_timeout_ms']);
  t.end();
});

t.test('readCallConfig() reads more configurations than it keeps, and longer ones', (t) => {
  for (let round = 0; round < 3; round++) {
    for (let n = 0; n < 12; n++) t.equal(read(`{"name":"n${n}","prevResult":{}}`).config.name, `n${n}`);
    t.equal(read(`{"name":"long","x":"${'x'.repeat(20_000)}"}`).config.name, 'long');
  }
  t.end();
});
