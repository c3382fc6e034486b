// cnitool of containernetworking/cni: libcni itself, one verb a call. Its result cache is /var/lib/cni, so a room hides that.
import { type SpawnSyncReturns, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { CNITOOL } from './places.ts';

export type CnitoolVerb = 'add' | 'check' | 'del' | 'gc' | 'status';

/** `network` is the name inside a file of `confDir`; `args` are handed on as CNI_ARGS, in this order. */
export interface CnitoolCall {
  readonly network: string;
  readonly netns: string;
  readonly confDir: string;
  readonly binDir: string;
  readonly ifname?: string;
  readonly args?: readonly (readonly [string, string])[];
  readonly capabilities?: Readonly<Record<string, unknown>>;
  readonly env?: Readonly<Record<string, string>>;
}

/** Runs one verb to its end; the exit code is the caller's to judge. */
export function runCnitool(verb: CnitoolVerb, call: CnitoolCall): SpawnSyncReturns<string> {
  const env = {
    ...process.env,
    ...call.env,
    CNI_PATH: call.binDir,
    NETCONFPATH: call.confDir,
    CNI_IFNAME: call.ifname ?? 'eth0',
    CNI_ARGS: (call.args ?? []).map(([key, value]) => `${key}=${value}`).join(';'),
    CAP_ARGS: JSON.stringify(call.capabilities ?? {}),
  };
  return spawnSync(CNITOOL, [verb, call.network, call.netns], { encoding: 'utf8', env });
}

/** The container id that cnitool makes of a namespace's path. */
export function cnitoolContainerId(netns: string): string {
  return `cnitool-${createHash('sha512').update(netns).digest('hex').slice(0, 20)}`;
}
