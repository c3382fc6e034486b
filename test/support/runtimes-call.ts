// One call of our plugin without a runtime: the environment and the standard input that libcni would give, each part of which
// a test may change.
import { type SpawnSyncReturns, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import {
  type CniCommand,
  cniEnvironment,
  type Json,
  type PluginRun,
  pluginInput,
  runPlugin,
} from '../../scripts/lab/cni-runtime.ts';
import { makeNetns, removeNetns } from '../../scripts/lab/network.ts';
import type { PluginForm } from '../../scripts/runtimes/plugin-dir.ts';
import { ANNOTATIONS_CAPABILITY, MANAGED, ownEntry, pluginDir } from './runtimes-node.ts';
import { ROOM_DIR } from './runtimes-room.ts';

/** `netns` is a path; `annotations` are the pod's, without any the pod is managed; `entry` is added to our entry. */
export interface PluginCall {
  readonly form: PluginForm;
  readonly containerId: string;
  readonly netns: string;
  readonly cniVersion?: string;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly prevResult?: Json;
  readonly entry?: Json;
  /** The whole environment besides CNI_*; the test's own when absent. */
  readonly env?: Readonly<Record<string, string>>;
}

/** An address of each family on eth0, as bridge answers in 1.0.0. */
export const PREV_RESULT: Json = {
  cniVersion: '1.0.0',
  interfaces: [{ name: 'eth0', mac: '02:00:00:00:00:01', sandbox: '/run/netns/of-the-pod' }],
  ips: [
    { address: '10.99.0.2/24', gateway: '10.99.0.1', interface: 0 },
    { address: 'fd99::2/64', gateway: 'fd99::1', interface: 0 },
  ],
  routes: [{ dst: '0.0.0.0/0', gw: '10.99.0.1' }],
  dns: {},
};

/** The executable, the CNI_* variables and the standard input of a call. */
export function describeCall(verb: CniCommand, call: PluginCall) {
  const { form, containerId, netns, cniVersion = '1.0.0', annotations = MANAGED, prevResult } = call;
  const entry = ownEntry(call.entry);
  const capabilities = { [ANNOTATIONS_CAPABILITY]: annotations };
  const dir = pluginDir(form);
  const args = { K8S_POD_NAMESPACE: 'demo', K8S_POD_NAME: `pod-${containerId.slice(0, 8)}` };
  // Without it the full file asks the agent that its configuration names, by gRPC; with it, as the relay does.
  const alone = form === 'full' ? { AETHER_RELAY_SOCKET: '' } : {};
  return {
    file: join(dir, entry.type),
    env: { ...cniEnvironment(verb, { containerId, netns, ifname: 'eth0', args, capabilities }, [dir]), ...alone },
    input: pluginInput({ cniVersion, name: 'direct', plugins: [] }, entry, {
      capabilities,
      ...(prevResult === undefined ? {} : { prevResult }),
    }),
  };
}

/** Runs a verb and waits without letting other JavaScript run. */
export function callPlugin(verb: CniCommand, call: PluginCall): SpawnSyncReturns<string> {
  const { file, env, input } = describeCall(verb, call);
  return spawnSync(file, [], {
    env: { ...(call.env ?? process.env), ...env },
    input,
    encoding: 'utf8',
    timeout: 30_000,
  });
}

/** The same for calls at the same instant. */
export function startPluginCall(verb: CniCommand, call: PluginCall): Promise<PluginRun> {
  const { file, env, input } = describeCall(verb, call);
  return runPlugin(file, input, { env: { ...call.env, ...env } });
}

/** A fresh container id and namespace, removed when disposed. */
export function openPod(): { readonly containerId: string; readonly netns: string } & Disposable {
  const containerId = randomBytes(16).toString('hex');
  const netns = makeNetns(join(ROOM_DIR, 'ns'), containerId);
  return { containerId, netns, [Symbol.dispose]: () => removeNetns(netns) };
}
