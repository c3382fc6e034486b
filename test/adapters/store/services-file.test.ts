// A real file of fixed addresses, replaced in every way that there is: each is seen, and bad content never replaces good.
import { mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { readServicesFile, watchServicesFile } from '../../../src/adapters/store/services-file.ts';
import type { VipPins } from '../../../src/agent/vip-pins.ts';
import { RecordingLog } from '../../support/recording-log.ts';

const text = (address: string): string => `{"services":{"demo/shop":["${address}"]}}`;

t.test('watchServicesFile() sees every way of replacing the file and keeps the last good content', async (t) => {
  const dir = await mkdtemp('/tmp/ae-services-');
  t.teardown(() => rm(dir, { recursive: true, force: true }));
  const path = join(dir, 'services.json');
  const log = new RecordingLog();
  let pins: VipPins = new Map();
  const current = (): string | undefined => pins.get('demo/shop')?.[0]?.text;
  const until = async (what: string, check: () => boolean): Promise<void> => {
    const end = Date.now() + 5000;
    while (!check() && Date.now() < end) await new Promise((resolve) => setTimeout(resolve, 10));
    t.ok(check(), what);
  };
  await writeFile(path, text('10.0.0.1'));
  pins = await readServicesFile(path);
  t.equal(current(), '10.0.0.1');
  using _watch = watchServicesFile({ path, log, pollMs: 20 }, (next) => {
    pins = next;
  });
  await writeFile(path, text('10.0.0.2'));
  await until('written in place', () => current() === '10.0.0.2');
  await writeFile(`${path}.new`, text('10.0.0.3'));
  await rename(`${path}.new`, path);
  await until('renamed over', () => current() === '10.0.0.3');
  await writeFile(path, '{"services":{"shop":["nope"]}}');
  await until('refused with every problem', () => log.has('agent.services_file.refused', /the key must be.*nope/s));
  t.equal(current(), '10.0.0.3', 'the last good content stays');
  await rm(path);
  await until('missing', () => log.has('agent.services_file.refused', /ENOENT/));
  t.equal(current(), '10.0.0.3');
  await writeFile(join(dir, 'v2.json'), text('10.0.0.4'));
  await symlink('v2.json', path);
  await until('a symlink', () => current() === '10.0.0.4');
});

t.test('readServicesFile() says which file is wrong', async (t) => {
  await t.rejects(readServicesFile('/nonexistent/services.json'), {
    code: 'E_INPUT',
    message: /reading the services file \/nonexistent\/services\.json: ENOENT/,
  });
});
