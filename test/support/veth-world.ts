// A pod and the world: two namespaces of a test joined by a cable, both families on it.
import { execFileSync } from 'node:child_process';
import { execIn, makeNetns, type TestNetns } from './netns.ts';

export interface VethWorld {
  readonly pod: TestNetns;
  readonly world: TestNetns;
}

export const POD_ADDRESS = { 4: '10.250.0.2', 6: 'fd25::2' } as const;
export const WORLD_ADDRESS = { 4: '10.250.0.1', 6: 'fd25::1' } as const;

export type Family = 4 | 6;

/** The interface is eth0 on both sides. `families`: those that get an address; IPv6 link-local is there either way. */
export function makeVethWorld(
  t: Parameters<typeof makeNetns>[0],
  prefix: string,
  families: readonly Family[] = [4, 6],
): VethWorld {
  const pod = makeNetns(t, prefix);
  const world = makeNetns(t, prefix);
  const cable = ['link', 'add', 'eth0', 'netns', pod.name, 'type', 'veth', 'peer', 'eth0', 'netns', world.name];
  execFileSync('ip', cable);
  for (const [netns, addresses] of [
    [pod, POD_ADDRESS],
    [world, WORLD_ADDRESS],
  ] as const) {
    // Nobody else is on the cable: no waiting for a duplicate of the link-local address.
    execIn(netns, ['sh', '-c', 'echo 0 > /proc/sys/net/ipv6/conf/eth0/accept_dad']);
    for (const family of families) {
      const [length, nodad] = family === 4 ? [24, []] : [64, ['nodad']];
      execIn(netns, ['ip', 'addr', 'add', `${addresses[family]}/${length}`, 'dev', 'eth0', ...nodad]);
    }
    execIn(netns, ['ip', 'link', 'set', 'eth0', 'up']);
  }
  return { pod, world };
}
