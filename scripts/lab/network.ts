// Addresses, network lists and namespaces of the lab's node: a dual-stack bridge made by the real plugins, a host
// address for the agent, and one network namespace a pod, as a file in the lab's directory.
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Json, NetworkList } from './cni-runtime.ts';

/** The node's own address: the agent's mesh DNS listens there. Documentation range, so nothing else has it. */
export const HOST_IP = '192.0.2.1';
/** Where pods believe their DNS to be; only the plugin's rules make anybody answer there. */
export const POD_DNS_IP = '192.0.2.53';
const POD_RANGE4 = '10.88.0.0/16';
const POD_RANGE6 = 'fd88::/64';

/** Prepares the (new, empty) namespace this process is in as the node's: lo up, forwarding on, the host address set. */
export function prepareNode(): void {
  ip('link', 'set', 'lo', 'up');
  ip('address', 'add', `${HOST_IP}/32`, 'dev', 'lo');
  for (const key of ['ipv4/ip_forward', 'ipv6/conf/all/forwarding']) writeFileSync(`/proc/sys/net/${key}`, '1');
  // Nobody else is on the bridge: its address is good at once, not after seconds of asking, in which the node dials in vain.
  for (const name of ['all', 'default']) writeFileSync(`/proc/sys/net/ipv6/conf/${name}/accept_dad`, '0');
}

/** Makes an empty network namespace at `<dir>/<name>` and returns that path; lo is down, as a runtime leaves it. */
export function makeNetns(dir: string, name: string): string {
  const path = join(dir, name);
  mkdirSync(dir, { recursive: true });
  writeFileSync(path, '');
  execFileSync('unshare', [`--net=${path}`, 'true']);
  return path;
}

/** Removes a namespace made by makeNetns. */
export function removeNetns(path: string): void {
  execFileSync('umount', [path]);
  execFileSync('rm', [path]);
}

/** What every runtime runs first for a sandbox, on the interface `lo`. */
export const LOOPBACK_LIST: NetworkList = {
  cniVersion: '1.0.0',
  name: 'lab-loopback',
  plugins: [{ type: 'loopback' }],
};

/** The pods' network: bridge with host-local in both families, then `chained` plugins. */
export function podNetwork(ipamDir: string, chained: readonly ({ readonly type: string } & Json)[]): NetworkList {
  return {
    cniVersion: '1.0.0',
    name: 'lab',
    plugins: [
      {
        type: 'bridge',
        bridge: 'lab0',
        isGateway: true,
        ipam: {
          type: 'host-local',
          dataDir: ipamDir,
          ranges: [[{ subnet: POD_RANGE4 }], [{ subnet: POD_RANGE6 }]],
          routes: [{ dst: '0.0.0.0/0' }, { dst: '::/0' }],
        },
      },
      ...chained,
    ],
  };
}

function ip(...args: string[]): void {
  execFileSync('ip', args);
}
