// istio-cni as a peer (--peers): what it asks while it works, answered at once. It talks to an API server about its pod and to
// its node agent about its log; both flatter it, since nothing of that crosses a network or TLS here.
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { Json } from '../lab/cni-runtime.ts';
import { type BenchPlugin, chained, GO_DIR } from './plugins.ts';

export interface IstioPeer extends AsyncDisposable {
  readonly plugin: BenchPlugin;
}

const POD: Json = {
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'pod', namespace: 'bench', uid: 'uid', annotations: { 'sidecar.istio.io/status': '{}' } },
  spec: { containers: ['app', 'istio-proxy'].map((name) => ({ name, image: 'none' })) },
};

/** Listens in this network namespace. */
export async function startIstioPeer(dir: string): Promise<IstioPeer> {
  const own = join(dir, 'istio');
  mkdirSync(own, { recursive: true });
  const api = await listen(POD, { port: 0, host: '127.0.0.1' });
  const log = await listen({}, { path: join(own, 'log.sock') });
  const { port } = api.address() as AddressInfo; // of a server that listens on TCP
  writeFileSync(join(own, 'istio-cni-kubeconfig'), kubeconfig(port));
  const settings = { cni_agent_run_dir: own, pod_namespace: 'istio-system', plugin_log_level: 'info' };
  return {
    plugin: {
      name: 'istio-cni, sidecar, nftables (Go)',
      program: join(GO_DIR, 'istio-cni'),
      verbs: ['VERSION', 'ADD', 'DEL'],
      loAtDel: 'up',
      env: {},
      config: (index) => ({
        ...chained(index),
        ...settings,
        native_nftables: true,
        exclude_namespaces: ['kube-system'],
      }),
    },
    [Symbol.asyncDispose]: async () => {
      for (const server of [api, log]) {
        server.closeAllConnections();
        server.close();
      }
    },
  };
}

function listen(answer: Json, where: { readonly port: number; readonly host: string } | { readonly path: string }) {
  const server = createServer((request, response) => {
    request.resume();
    response.setHeader('content-type', 'application/json').end(JSON.stringify(answer));
  });
  return new Promise<Server>((resolve, reject) => {
    server.once('error', reject);
    server.listen(where, () => resolve(server));
  });
}

function kubeconfig(port: number): string {
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'bench', cluster: { server: `http://127.0.0.1:${port}` } }],
    users: [{ name: 'bench', user: {} }],
    contexts: [{ name: 'bench', context: { cluster: 'bench', user: 'bench' } }],
    'current-context': 'bench',
  });
}
