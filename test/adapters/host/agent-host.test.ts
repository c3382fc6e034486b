// What /proc says, read as it was seen on a real kernel.
import { execFileSync } from 'node:child_process';
import t from 'tap';
import { agentHost, findUnrefused, parseOpenFileLimit } from '../../../src/adapters/host/agent-host.ts';
import { execIn, makeNetns } from '../../support/netns.ts';

const RANGES = ['10.254.0.0/16', 'fd0a:e7e0::/112', '10.253.0.0/16'];

t.test('findUnrefused() knows the prohibit routes of a real namespace', async (t) => {
  const netns = makeNetns(t, 'host');
  const read = () => ({
    ipv4: execIn(netns, ['cat', '/proc/net/route']),
    ipv6: execIn(netns, ['cat', '/proc/net/ipv6_route']),
  });
  t.strictSame(findUnrefused(RANGES, read()), RANGES);
  for (const range of RANGES.slice(0, 2)) execFileSync('ip', ['-n', netns.name, 'route', 'add', 'prohibit', range]);
  t.strictSame(findUnrefused(RANGES, read()), RANGES.slice(2));
  t.strictSame(findUnrefused(['10.254.0.0/17'], read()), ['10.254.0.0/17'], 'another length is another route');
  execFileSync('ip', ['-n', netns.name, 'route', 'add', '10.253.0.0/16', 'dev', 'lo']);
  t.strictSame(findUnrefused(RANGES, read()), RANGES.slice(2), 'a route that leads somewhere does not refuse');
});

t.test('findUnrefused() claims nothing about a family that it cannot see', async (t) => {
  t.strictSame(findUnrefused(RANGES, { ipv4: undefined, ipv6: undefined }), []);
});

t.test('parseOpenFileLimit() reads the soft limit', async (t) => {
  const line = (soft: string) =>
    `Limit  Soft\nMax open files            ${soft}                524288               files     \n`;
  t.equal(parseOpenFileLimit(line('1024')), 1024);
  t.equal(parseOpenFileLimit(line('unlimited')), Number.MAX_SAFE_INTEGER);
  t.equal(parseOpenFileLimit(''), undefined);
  t.ok((agentHost.openFileLimit() ?? 0) > 0);
});
