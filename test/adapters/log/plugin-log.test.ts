// The plugin's log: capped, private, and unable to fail a call or to reach stdout.
import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { openPluginLog } from '../../../src/adapters/log/plugin-log.ts';

const base = mkdtempSync('/tmp/ae-log-');
t.teardown(() => rmSync(base, { recursive: true, force: true }));

function open(file: string, options: { readonly maxBytes?: number; readonly level?: 'debug' | 'warn' } = {}) {
  const notes: string[] = [];
  const log = openPluginLog({ level: 'info', file, note: (sentence) => notes.push(sentence), ...options });
  return { log, notes };
}
const linesOf = (file: string): Record<string, unknown>[] =>
  readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));

t.test('openPluginLog() writes JSON lines with the fields of the call', async (t) => {
  const file = join(base, 'new/dir/plugin.log');
  const { log, notes } = open(file);
  log.child({ verb: 'ADD' }).info('cni.add.done', { pinned: true });
  log.debug('cni.hidden');
  t.match(linesOf(file), [{ event: 'cni.add.done', verb: 'ADD', pinned: true, pid: process.pid }]);
  t.equal(linesOf(file).length, 1);
  t.equal(statSync(file).mode & 0o777, 0o600);
  t.strictSame(notes, []);
});

t.test('openPluginLog() heeds the level', async (t) => {
  const file = join(base, 'level.log');
  const { log } = open(file, { level: 'warn' });
  for (const level of ['debug', 'info', 'warn', 'error'] as const) log[level](level);
  t.strictSame(
    linesOf(file).map(({ event }) => event),
    ['warn', 'error'],
  );
});

t.test('openPluginLog() keeps one older file and starts anew beyond the cap', async (t) => {
  const file = join(base, 'capped.log');
  for (let round = 0; round < 20; round++) open(file, { maxBytes: 300 }).log.info('cni.round', { round });
  t.ok(statSync(file).size + statSync(`${file}.1`).size < 1000);
  t.match(linesOf(file).at(-1), { round: 19 });
});

mkdirSync(join(base, 'directory'));
writeFileSync(join(base, 'plain'), '');
symlinkSync('/dev/stdout', join(base, 'to-stdout'));
symlinkSync('/dev/full', join(base, 'to-full'));
execFileSync('mkfifo', [join(base, 'fifo')]);
for (const name of ['directory', 'plain/x.log', 'to-stdout', 'to-full', 'fifo']) {
  t.test(`openPluginLog() goes on without a log when the file is ${name}`, async (t) => {
    const { log, notes } = open(join(base, name));
    log.info('cni.one');
    log.child({ a: 1 }).error('cni.two');
    t.equal(notes.length, 1);
    t.match(notes[0], `no log is written to ${join(base, name)}`);
  });
}

t.test('openPluginLog() goes on when the disk is full', async (t) => {
  const dir = join(base, 'small');
  mkdirSync(dir);
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=4096', 'tmpfs', dir]);
  t.teardown(() => execFileSync('umount', ['-l', dir]));
  const { log, notes } = open(join(dir, 'plugin.log'));
  for (let line = 0; line < 100; line++) log.info('cni.line', { text: 'x'.repeat(100) });
  t.match(notes, [/ENOSPC/]);
  t.ok(statSync(join(dir, 'plugin.log')).size <= 4096);
});

t.test('openPluginLog() goes on where nothing can be written', async (t) => {
  const dir = join(base, 'readonly');
  mkdirSync(dir);
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'ro', 'tmpfs', dir]);
  t.teardown(() => execFileSync('umount', ['-l', dir]));
  const { log, notes } = open(join(dir, 'plugin.log'));
  log.info('cni.one');
  t.match(notes, [/EROFS/]);
  t.equal(open(join(dir, 'sub/plugin.log')).notes.length, 1);
});

t.test('openPluginLog() never writes to the file that stdout is', async (t) => {
  const file = join(base, 'result.json');
  const script = `
    import { openPluginLog } from '${join(import.meta.dirname, '../../../src/adapters/log/plugin-log.ts')}';
    const log = openPluginLog({ level: 'info', file: '${file}', note: (text) => process.stderr.write(text) });
    log.info('cni.one');`;
  writeFileSync(join(base, 'probe.mts'), script);
  const shell = `'${process.execPath}' '${join(base, 'probe.mts')}' > '${file}'`;
  execFileSync('bash', ['-c', shell], { stdio: ['ignore', 'inherit', 'ignore'] });
  t.ok(existsSync(file));
  t.equal(readFileSync(file, 'utf8'), '');
});
