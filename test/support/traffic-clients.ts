// The clients of a service under change: one pod that is captured completely, one that is not, and what they may see.
import { setTimeout as sleep } from 'node:timers/promises';
import { type Allowed, findUnexpected, formatSeen, type Seen, type StreamSpec } from './traffic.ts';
import type { TrafficNode, TrafficPod } from './traffic-node.ts';

export interface Clients extends Disposable {
  /** What all of them got since the last call. */
  take(): Promise<Seen>;
}

/** A stream without its address, which is the service's. */
export type ServiceStream = Omit<StreamSpec, 'host'>;

const EVERY_MS = 20;

export const tcpTo = (port: number): ServiceStream => ({
  name: `tcp ${port}`,
  kind: 'tcp-fresh',
  port,
  everyMs: EVERY_MS,
});

export const longTo = (port: number, name = 'long'): ServiceStream => ({
  name,
  kind: 'tcp-long',
  port,
  everyMs: EVERY_MS,
});

/** `http://<name>:<port>/`; `dialled`: to another port than the authority names. */
export const httpTo = (serviceAccount: string, port: number, dialled = port): ServiceStream => ({
  name: dialled === port ? `http ${port}` : `http ${port} at ${dialled}`,
  kind: 'http-fresh',
  port: dialled,
  authority: `${nameOf(serviceAccount)}:${port}`,
  everyMs: EVERY_MS,
});

const nameOf = (serviceAccount: string): string => `${serviceAccount}.demo.aether.internal`;

/**
 * Streams of both pods to the service: `fresh` and `default` (the two mesh ports), the same as `scoped fresh` and `scoped
 * default`; from `client` alone `keep` (HTTP on 80), `dns`, and `more`.
 */
export async function startClients(
  node: TrafficNode,
  pods: { readonly client: TrafficPod; readonly scoped: TrafficPod },
  options: { readonly service: string; readonly more?: readonly ServiceStream[] },
): Promise<Clients> {
  const host = await node.addressOf(options.service);
  const authority = nameOf(options.service);
  const both: readonly StreamSpec[] = [
    { name: 'fresh', kind: 'http-fresh', host, port: 18081, authority, everyMs: EVERY_MS },
    { name: 'default', kind: 'tcp-fresh', host, port: 18082, everyMs: EVERY_MS },
  ];
  const traffics = [
    node.traffic(pods.client, [
      ...both,
      { name: 'keep', kind: 'http-keep', host, port: 80, authority, everyMs: EVERY_MS / 2 },
      { name: 'dns', kind: 'dns', host: authority, port: 0, everyMs: 50 },
      ...(options.more ?? []).map((stream) => ({ ...stream, host })),
    ]),
    node.traffic(
      pods.scoped,
      both.map((stream) => ({ ...stream, name: `scoped ${stream.name}` })),
    ),
  ];
  const take = async (): Promise<Seen> => Object.assign({}, ...(await Promise.all(traffics.map((one) => one.take()))));
  await sleep(500);
  await take();
  return {
    take,
    [Symbol.dispose]: () => {
      for (const one of traffics) one[Symbol.dispose]();
    },
  };
}

/** What the streams on names and mesh ports may get, from either pod. */
export function everywhere({ http, tcp }: { readonly http: RegExp; readonly tcp: RegExp }): Allowed {
  return { keep: http, fresh: http, 'scoped fresh': http, default: tcp, 'scoped default': tcp };
}

export interface Step {
  readonly what: string;
  readonly run: () => Promise<unknown>;
  readonly allowed: Allowed;
}

interface Asserts {
  strictSame(found: unknown, wanted: unknown, message: string): boolean;
  comment(text: string): void;
}

/** Runs the steps in order under the clients' traffic; what each step showed. `node` explains what went wrong. */
export async function follow(
  t: Asserts,
  { node, clients }: { readonly node: TrafficNode; readonly clients: Clients },
  steps: readonly Step[],
): Promise<readonly Seen[]> {
  const all: Seen[] = [];
  for (const { what, run, allowed } of steps) {
    const sinceMs = Date.now();
    await run();
    const seen = await clients.take();
    if (!t.strictSame(findUnexpected(seen, allowed, { sinceMs }), [], what)) {
      t.comment([formatSeen(seen), ...node.listEvents(sinceMs)].join('\n'));
    }
    all.push(seen);
  }
  return all;
}
