// A log that cannot be written costs lines, never the agent.
import { execFileSync, spawn } from 'node:child_process';
import { closeSync, constants, mkdtempSync, openSync, readFileSync, readSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { LineWriter } from '../../src/commands/agent-log.ts';

const dir = mkdtempSync('/tmp/ae-log-');
t.teardown(() => rmSync(dir, { recursive: true, force: true }));

t.test('LineWriter writes what it is given', async (t) => {
  const file = join(dir, 'log');
  const fd = openSync(file, 'a');
  const writer = new LineWriter(fd);
  writer.write('{"a":1}\n');
  writer.write('{"b":2}\n');
  closeSync(fd);
  t.equal(readFileSync(file, 'utf8'), '{"a":1}\n{"b":2}\n');
  t.doesNotThrow(() => writer.write('{"c":3}\n'), 'nor minds a descriptor that is closed');
});

t.test('LineWriter goes on where the disk is full', async (t) => {
  const fd = openSync('/dev/full', 'a');
  const writer = new LineWriter(fd);
  for (let n = 0; n < 3; n++) t.doesNotThrow(() => writer.write('{}\n'));
  closeSync(fd);
});

t.test('LineWriter says how many lines a slow reader has cost', async (t) => {
  const path = join(dir, 'pipe');
  execFileSync('mkfifo', [path]);
  const fd = openSync(path, constants.O_RDWR | constants.O_NONBLOCK);
  const writer = new LineWriter(fd);
  const line = `${JSON.stringify({ text: 'x'.repeat(9000) })}\n`;
  for (let n = 0; n < 20; n++) writer.write(line);
  const read = (): string => {
    const buffer = Buffer.alloc(1 << 20);
    return buffer.toString('utf8', 0, readSync(fd, buffer));
  };
  const first = read();
  writer.write('{"last":1}\n');
  const lines = (first + read()).trimEnd().split('\n');
  t.equal(lines.at(-1), '{"last":1}');
  const notice = JSON.parse(lines.at(-2) ?? '') as { readonly event: string; readonly lines: number };
  t.equal(notice.event, 'agent.log.lost');
  const whole = lines.filter((text) => text === line.trimEnd()).length;
  t.equal(whole + notice.lines, 20, 'all that were written and all that were lost');
  closeSync(fd);
});

t.test('LineWriter survives a reader that is gone', async (t) => {
  const program = `import { LineWriter } from '${join(import.meta.dirname, '../../src/commands/agent-log.ts')}';
    const writer = new LineWriter(2);
    await new Promise((resolve) => process.stdin.once('data', resolve));
    for (let n = 0; n < 3; n++) writer.write('{}\\n');
    process.exit(7);`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], { stdio: ['pipe', 'ignore', 'pipe'] });
  child.stderr.destroy();
  child.stdin.write('go\n');
  t.equal(await new Promise((resolve) => child.once('exit', resolve)), 7);
});
