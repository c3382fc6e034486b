// In a namespace of its own: this process starts itself again there.
import { execFileSync } from 'node:child_process';
import t from 'tap';
import { NetlinkVipRoutes } from '../../../src/adapters/host/routes.ts';
import { RecordingLog } from '../../support/recording-log.ts';

const RANGES = ['10.254.0.0/16', 'fd0a:e7e0::/112'];
const ip = (...args: string[]): string => execFileSync('ip', args, { encoding: 'utf8' });
const listRoutes = (): string => ip('-4', 'route') + ip('-6', 'route');

if (process.env['AETHER_TEST_IN_NETNS'] === '1') await runInside();
else {
  t.test('NetlinkVipRoutes in a namespace of its own', (t) => {
    const output = execFileSync('unshare', ['--net', process.execPath, import.meta.filename], {
      env: { ...process.env, AETHER_TEST_IN_NETNS: '1', TAP: '1' },
      encoding: 'utf8',
    });
    const seen: unknown = JSON.parse(output.trim().split('\n').at(-1) ?? '');
    t.match(seen, {
      added: /prohibit 10\.254\.0\.0\/16 proto 174.*prohibit fd0a:e7e0::\/112 .*proto 174/s,
      again: 'fine',
      released: '',
      releasedAgain: 'fine',
      foreign: /prohibit 10\.254\.0\.0\/16 *\n/,
      refused: /EINVAL|EPERM|not a range/,
    });
    t.equal((seen as { noIpv6: string }).noIpv6, 'fine');
    t.end();
  });
}

async function attempt(action: () => Promise<void>): Promise<string> {
  try {
    await action();
    return 'fine';
  } catch (error) {
    return String(error);
  }
}

async function runInside(): Promise<void> {
  ip('link', 'set', 'lo', 'up');
  const log = new RecordingLog();
  const routes = new NetlinkVipRoutes(log);
  await routes.prohibit(RANGES);
  const added = listRoutes();
  const again = await attempt(() => routes.prohibit(RANGES));
  await routes.release(RANGES);
  const released = listRoutes().replace(/^.*(::1|fe80|multicast).*\n/gm, '');
  const releasedAgain = await attempt(() => routes.release(RANGES));
  ip('route', 'add', 'prohibit', '10.254.0.0/16');
  await attempt(() => routes.prohibit(RANGES));
  await attempt(() => routes.release(RANGES));
  const foreign = listRoutes();
  execFileSync('sysctl', ['-q', '-w', 'net.ipv6.conf.all.disable_ipv6=1']);
  const noIpv6 = await attempt(() => routes.prohibit(RANGES));
  const refused = await attempt(() => routes.prohibit(['nonsense']));
  process.stdout.write(
    `${JSON.stringify({ added, again, released, releasedAgain, foreign, noIpv6, refused, log: log.entries })}\n`,
  );
}
