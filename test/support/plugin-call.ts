// One CNI call against a fake node, spelt short.
import { answerCall, type CniAnswer } from '../../src/plugin/dispatch.ts';
import type { FakePluginNode } from './fake-plugin-node.ts';

export const ANNOTATIONS_KEY = 'io.kubernetes.cri.pod-annotations';
export const PREV_RESULT = {
  cniVersion: '1.1.0',
  interfaces: [{ name: 'eth0', sandbox: '/run/netns/a' }],
  ips: [{ address: '10.1.2.3/24' }, { address: 'fd00::3/64' }],
  vendor: { kept: [1] },
};

export interface PluginCall {
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Merged into a complete configuration; `undefined` removes a key. */
  readonly config?: Readonly<Record<string, unknown>>;
  readonly annotations?: Readonly<Record<string, string>>;
  /** In place of the configuration. */
  readonly stdin?: string;
  /** The same, as bytes. */
  readonly bytes?: Uint8Array;
  readonly signal?: AbortSignal;
}

export function callPlugin(node: FakePluginNode, verb: string, call: PluginCall = {}): Promise<CniAnswer> {
  const { env = {}, config = {}, annotations = { 'aether.io/managed': 'true' }, stdin, bytes, signal } = call;
  const full = {
    cniVersion: '1.1.0',
    name: 'net',
    type: 'aether-cni',
    netns_pin_dir: '/pins',
    delete_queue_dir: '/queue',
    runtimeConfig: { [ANNOTATIONS_KEY]: annotations },
    prevResult: PREV_RESULT,
    ...config,
  };
  return answerCall(
    {
      env: {
        CNI_COMMAND: verb,
        CNI_CONTAINERID: 'c1',
        CNI_NETNS: '/run/netns/a',
        CNI_IFNAME: 'eth0',
        CNI_ARGS: 'K8S_POD_NAMESPACE=demo;K8S_POD_NAME=shop-0;K8S_POD_UID=u-1',
        ...env,
      },
      readStdin: async () => bytes ?? new TextEncoder().encode(stdin ?? JSON.stringify(full)),
      ...(signal === undefined ? {} : { signal }),
    },
    async (_config, about) => ({ ...node.deps, log: node.deps.log.child(about) }),
  );
}

/** The error object of a failed call. */
export function errorOf({ stdout }: CniAnswer): {
  readonly code: number;
  readonly msg: string;
  readonly cniVersion: string;
} {
  return JSON.parse(stdout);
}
