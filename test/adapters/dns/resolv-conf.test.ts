// Which lines of the host's file name a resolver, three at most; while the file is away, those of before stay.
import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { followResolvConf, parseResolvConf } from '../../../src/adapters/dns/resolv-conf.ts';
import { formatSocketAddress } from '../../../src/core/socket-address.ts';

t.test('parseResolvConf() reads nameservers in order, three at most', (t) => {
  const cases: readonly [string, readonly string[]][] = [
    ['nameserver 10.96.0.10\noptions ndots:5\nnameserver fd00::a # second\n', ['10.96.0.10:53', '[fd00::a]:53']],
    ['# nameserver 1.1.1.1\n;nameserver 1.1.1.1\nsearch nameserver\n', []],
    ['nameserver not-an-address\n\tnameserver\t192.0.2.1', ['192.0.2.1:53']],
    [
      'nameserver 1.0.0.1\nnameserver 1.0.0.2\nnameserver 1.0.0.3\nnameserver 1.0.0.4\n',
      ['1.0.0.1:53', '1.0.0.2:53', '1.0.0.3:53'],
    ],
    ['', []],
  ];
  for (const [text, want] of cases) t.strictSame(parseResolvConf(text).map(formatSocketAddress), want, text);
  t.end();
});

t.test('followResolvConf() without the file has no resolvers, and reads one that is there', async (t) => {
  const dir = await mkdtemp('/tmp/ae-resolv-');
  t.teardown(() => rm(dir, { recursive: true, force: true }));
  const path = join(dir, 'resolv.conf');
  t.strictSame(followResolvConf(path)(), []);
  await writeFile(`${path}.new`, 'nameserver 192.0.2.53\n');
  await rename(`${path}.new`, path);
  const servers = followResolvConf(path);
  t.strictSame(servers().map(formatSocketAddress), ['192.0.2.53:53']);
  await rm(path);
  t.strictSame(servers().map(formatSocketAddress), ['192.0.2.53:53'], 'kept while it is away');
});
