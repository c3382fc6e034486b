// The timer on real programs: what is reported of a call, calls side by side, processes that do nothing, namespaces.
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { type CallResult, TimerScript } from '../../../scripts/bench/call-timer.ts';
import { readStraceSummary } from '../../../scripts/bench/count-system-calls.ts';

const dir = mkdtempSync('/tmp/ae-timer-');
t.teardown(() => rmSync(dir, { recursive: true, force: true }));

async function callsOf(script: TimerScript): Promise<readonly CallResult[]> {
  return (await script.run()).filter((each): each is CallResult => each.kind === 'call');
}

t.test('a call gets arguments, environment and stdin; its status is told, and its words where it failed', async (t) => {
  const stdin = join(dir, 'stdin');
  writeFileSync(stdin, 'from stdin');
  const program = join(dir, 'program');
  writeFileSync(program, '#!/bin/sh\nread -r text\necho "$WORD $1 $2 $text"\nexit "$STATUS"\n', { mode: 0o755 });
  const call = { program, args: ['one', 'two'], stdin };
  const [good, bad] = await callsOf(
    new TimerScript()
      .call({ ...call, label: 'good', env: { WORD: 'a word', STATUS: '0' } })
      .call({ ...call, label: 'bad', env: { WORD: 'a word', STATUS: '3' } }),
  );
  t.match(good, { label: 'good', status: 0, text: '' });
  t.match(bad, { label: 'bad', status: 3, text: /^a word one two from stdin/ });
  t.ok((good?.wallMs ?? 0) > 0.1);
  t.ok((good?.cpuMs ?? 0) > 0);
});

t.test('width says how many calls are under way at once', async (t) => {
  const sleep = { label: 'sleep', program: '/bin/sleep', args: ['0.5'], env: {} };
  const script = new TimerScript().width(4).mark('time');
  for (let i = 0; i < 8; i++) script.call(sleep);
  const results = await script.join().mark('time').run();
  const [from, to] = results.filter(({ kind }) => kind === 'clock').map(({ cpuMs }) => cpuMs);
  t.equal(results.filter(({ kind }) => kind === 'call').length, 8);
  const tookMs = (to ?? Number.NaN) - (from ?? Number.NaN);
  t.ok(tookMs >= 1000, `two turns of four, ${tookMs} ms`);
  t.ok(tookMs < 3500, `not one after the other, ${tookMs} ms`);
});

t.test('a crowd is there while it is asked for', async (t) => {
  const count = { label: 'count', program: '/bin/sh', args: ['-c', 'exit'], env: {} };
  const script = join(dir, 'count');
  writeFileSync(script, '#!/bin/sh\ncat /proc/$PPID/task/*/children | wc -w\nexit 1\n', { mode: 0o755 });
  const ask = { ...count, program: script, args: [] };
  const texts = (await callsOf(new TimerScript().call(ask).crowd(40).call(ask).crowd(7).call(ask))).map(
    ({ text }) => text,
  );
  t.strictSame(texts.map(Number), [1, 41, 8]);
});

t.test('namespaces are new, have lo as asked for, and go', async (t) => {
  const path = join(dir, 'ns');
  const read = join(dir, 'read');
  writeFileSync(read, `#!/bin/sh\nnsenter --net=${path} ip -o link\nexit 1\n`, { mode: 0o755 });
  const call = { label: 'x', program: read, env: { PATH: process.env['PATH'] ?? '' } };
  const script = new TimerScript().namespace(path, 'up').call(call).loopback(path, 'down').call(call).remove(path);
  const [up, down] = (await callsOf(script)).map(({ text }) => text);
  t.match(up, /^1: lo: <LOOPBACK,UP/);
  t.match(down, /^1: lo: <LOOPBACK> /);
  t.notOk(readdirSync(dir).includes('ns'));
  t.notOk(readFileSync('/proc/self/mounts', 'utf8').includes(path));
});

t.test('a field with a tab is refused before anything is started', async (t) => {
  t.throws(() => new TimerScript().remove('a\tb'), /a field with a tab/);
});

t.test('an order that fails ends the script', async (t) => {
  await t.rejects(new TimerScript().remove(join(dir, 'never')).run(), /call-timer ended with 1/);
  t.notOk(existsSync(join(dir, 'never')));
});

t.test('readStraceSummary() reads calls and execs', async (t) => {
  const text = [
    '% time     seconds  usecs/call     calls    errors syscall',
    '------ ----------- ----------- --------- --------- ----------------',
    ' 61.54    0.000008           8         1           socket',
    '  0.00    0.000000           0        12         3 openat',
    '  0.00    0.000000           0         2         1 execve',
    '------ ----------- ----------- --------- --------- ----------------',
    '100.00    0.000013           0        16         4 total',
  ].join('\n');
  t.strictSame(readStraceSummary(text), { all: 16, execs: 2 });
});
