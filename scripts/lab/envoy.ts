// The real Envoy of the lab's node, started from our own bootstrap, and its counters.
import { writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { buildBootstrap } from '../../src/xds/bootstrap.ts';
import { envoyPath } from './places.ts';
import { type LabProcess, startProcess, waitUntil } from './processes.ts';

export interface Envoy {
  readonly process: LabProcess;
  /** GET on the admin interface; rejects when the status is not 200. */
  admin(path: string): Promise<string>;
  /** Counters and gauges by name. */
  counters(): Promise<ReadonlyMap<string, number>>;
}

/** Starts Envoy in this namespace and waits until its admin interface answers; its configuration comes later. */
export async function startEnvoy(options: {
  readonly dir: string;
  readonly nodeName: string;
  readonly xdsSocket: string;
  /** Added to Envoy's command line. */
  readonly args?: readonly string[];
}): Promise<Envoy> {
  const adminSocket = join(options.dir, 'envoy-admin.sock');
  const file = join(options.dir, 'envoy.json');
  const bootstrap = buildBootstrap({ nodeName: options.nodeName, xdsSocket: options.xdsSocket, adminSocket });
  writeFileSync(file, JSON.stringify(bootstrap, null, 2));
  const process = startProcess({
    name: 'envoy',
    // Hot restart would leave shared memory of the whole machine behind.
    command: [
      envoyPath(),
      ...['-c', file, '-l', 'warning', '--concurrency', '1', '--disable-hot-restart'],
      ...(options.args ?? []),
    ],
    logFile: join(options.dir, 'envoy.log'),
  });
  const admin = (path: string) => adminGet(adminSocket, path);
  const envoy: Envoy = { process, admin, counters: async () => parseCounters(await admin('/stats')) };
  await waitUntil('Envoy to answer', () => admin('/server_info'), { timeoutMs: 30_000, process });
  return envoy;
}

/** Listeners that take requests nobody of the lab made. */
const BACKGROUND: ReadonlySet<string> = new Set(['admin', 'health_gateway']);

/**
 * The filter chains that took a connection or a request between two readings, by their stat prefix, in order of
 * name; capture side before inbound side: `['cap_tcp', 'in_tcp_demo_db-0']`.
 */
export function chainsBetween(
  before: ReadonlyMap<string, number>,
  after: ReadonlyMap<string, number>,
): readonly string[] {
  const chains: string[] = [];
  for (const [name, value] of after) {
    const match = /^(?:tcp\.(.+)\.downstream_cx_total|http\.(.+)\.downstream_rq_total)$/.exec(name);
    const chain = match?.[1] ?? match?.[2];
    if (chain === undefined || BACKGROUND.has(chain)) continue;
    if (value > (before.get(name) ?? 0)) chains.push(chain);
  }
  return chains.sort();
}

function parseCounters(text: string): ReadonlyMap<string, number> {
  const counters = new Map<string, number>();
  for (const line of text.split('\n')) {
    const colon = line.lastIndexOf(': ');
    const value = Number(line.slice(colon + 2));
    if (colon > 0 && Number.isFinite(value)) counters.set(line.slice(0, colon), value);
  }
  return counters;
}

function adminGet(socketPath: string, path: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const call = request({ socketPath, path, timeout: 5000 }, (response) => {
      let body = '';
      response.setEncoding('utf8');
      response.on('data', (text: string) => {
        body += text;
      });
      response.on('end', () => {
        if (response.statusCode === 200) resolve(body);
        else reject(new Error(`asking Envoy for ${path}: ${response.statusCode}: ${body}`));
      });
    });
    call.on('timeout', () => call.destroy(new Error(`asking Envoy for ${path}: no answer in 5 s`)));
    call.on('error', reject);
    call.end();
  });
}
