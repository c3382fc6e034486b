// The plugin's log of the resident process: in the file that the call names, after its answer, and unable to do harm.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import t from 'tap';
import { CallLogs } from '../../../src/adapters/log/call-logs.ts';
import { RecordingLog } from '../../support/recording-log.ts';

const base = mkdtempSync('/tmp/ae-call-logs-');
t.teardown(() => rmSync(base, { recursive: true, force: true }));
const linesOf = (file: string): Record<string, unknown>[] =>
  readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));

t.test('CallLogs.open() writes to the file of the call and to the agent, in a later turn', async (t) => {
  const log = new RecordingLog();
  const logs = new CallLogs({ log });
  const [one, other] = [join(base, 'a/one.log'), join(base, 'other.log')];
  const call = logs.open({ logFile: one, logLevel: 'info' }).child({ verb: 'ADD', containerId: 'c1' });
  call.info('cni.add.done', { pinned: true });
  call.debug('cni.hidden');
  logs.open({ logFile: other, logLevel: 'debug' }).debug('cni.shown');
  t.notOk(existsSync(one), 'nobody waits for it');
  await setImmediate();
  t.match(linesOf(one), [{ event: 'cni.add.done', verb: 'ADD', containerId: 'c1', pinned: true, process: 'agent' }]);
  t.equal(linesOf(one).length, 1);
  t.equal(statSync(one).mode & 0o777, 0o600);
  t.match(linesOf(other), [{ event: 'cni.shown' }]);
  t.strictSame(
    log.entries.map(({ event }) => event),
    ['cni.add.done', 'cni.hidden', 'cni.shown'],
  );
});

t.test('CallLogs keeps one older file beyond the cap', async (t) => {
  const file = join(base, 'capped.log');
  const logs = new CallLogs({ log: new RecordingLog(), maxBytes: 300 });
  for (let round = 0; round < 20; round++) {
    logs.open({ logFile: file, logLevel: 'info' }).info('cni.round', { round });
    await setImmediate();
  }
  t.ok(statSync(file).size + statSync(`${file}.1`).size < 1000);
  t.match(linesOf(file).at(-1), { round: 19 });
});

t.test('CallLogs tells the agent once what cannot be written, and again after it could', async (t) => {
  const small = join(base, 'small');
  mkdirSync(small);
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=4096', 'tmpfs', small]);
  t.teardown(() => execFileSync('umount', ['-l', small]));
  writeFileSync(join(base, 'plain'), '');
  execFileSync('mkfifo', [join(base, 'fifo')]);
  for (const path of ['plain/x.log', 'fifo', 'small/plugin.log', '']) {
    const log = new RecordingLog();
    const call = new CallLogs({ log }).open({ logFile: join(base, path), logLevel: 'info' });
    for (let line = 0; line < 10; line++) {
      call.info('cni.line', { text: 'x'.repeat(1000) });
      await setImmediate();
    }
    const told = log.entries.filter(({ event }) => event === 'agent.plugin_log.not_written');
    t.match(told, [{ level: 'warn', fields: { file: join(base, path), reason: String } }], path);
    t.equal(told.length, 1, path);
  }
});
