// In processes of their own, whose threads the kernel is asked about: with the right to it, without, and with a chosen value.
import { execFileSync } from 'node:child_process';
import { setPriority } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { ROOT } from '../../../scripts/lab/places.ts';

// Whatever the tests are run with.
setPriority(0);

const PROGRAM = `
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { raisePriority } from '${join(ROOT, 'src/adapters/host/raise-priority.ts')}';
const reason = raisePriority();
// Begins threads.
await readFile('/proc/self/comm');
const { readdirSync } = await import('node:fs');
const niceOf = (thread) => Number(readFileSync('/proc/self/task/' + thread + '/stat', 'utf8').split(') ')[1].split(' ')[16]);
const nameOf = (thread) => readFileSync('/proc/self/task/' + thread + '/comm', 'utf8').trim();
const threads = readdirSync('/proc/self/task');
const later = threads.filter((thread) => nameOf(thread).startsWith('libuv-worker')).map(niceOf);
console.log(JSON.stringify({ reason, own: niceOf(process.pid), later: [...new Set(later)] }));
`;

function run(...under: readonly string[]): unknown {
  const [program = process.execPath, ...args] = [...under, process.execPath, '--input-type=module', '-e', PROGRAM];
  return JSON.parse(execFileSync(program, args, { encoding: 'utf8', timeout: 20_000 }));
}

t.test('raisePriority() sets this thread before others, and those that it begins', (t) => {
  t.strictSame(run(), { own: -5, later: [-5] });
  t.end();
});

t.test('raisePriority() says what the kernel does not allow, and nothing changes', (t) => {
  t.match(run('setpriv', '--bounding-set=-sys_nice'), { reason: /EACCES|EPERM/, own: 0, later: [0] });
  t.end();
});

t.test('raisePriority() leaves alone what somebody has chosen', (t) => {
  t.strictSame(run('nice', '-n', '3'), { reason: 'nice is 3 already', own: 3, later: [3] });
  t.strictSame(run('nice', '-n', '-9'), { reason: 'nice is -9 already', own: -9, later: [-9] });
  t.end();
});
