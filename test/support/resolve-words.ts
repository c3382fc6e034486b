// What became of a dial, in one line: once as resolve() says it, once as it was seen. Both speak the same words, so that the
// test compares texts and a failure reads as a sentence.
//   direct | dns | reset | closed 18001~ cap_tcp_blackhole | held 18001~ capture | 421 18003 capture
//   passthrough 18001 cap_passthrough | mesh 18002 cap_tcp tcp:10.96.0.50:9000 -> shop:9000
// `~`: only after the second that the inspectors wait.
import type { CapturedBy, Resolution } from '../../src/mesh/resolution.ts';
import type { Dial } from '../../src/mesh/resolve-in-kernel.ts';
import type { DialReport } from './resolve-dialler.ts';
import type { LogLine } from './resolve-evidence.ts';

/** Who dialled. */
export interface Dialler {
  /** Name of the pod, its resource name, its SPIFFE id. */
  readonly name: string;
  readonly resourceName: string;
  readonly identity: string;
  readonly ip4: string;
  readonly ip6: string;
}

/** All that is known of one dial afterwards. `lines`: of its own connection; `hops`: where the mesh delivered it. */
export interface Traces {
  readonly dial: Dial;
  readonly dialler: Dialler;
  readonly report: DialReport;
  readonly lines: readonly LogLine[];
  readonly hops: readonly LogLine[];
}

const WAITED_MS = 900;

export function sayResolution(resolution: Resolution): string {
  switch (resolution.kind) {
    case 'direct':
    case 'dns':
    case 'reset':
      return resolution.kind;
    case 'mesh': {
      const { by, cluster, service, bucket } = resolution;
      return `mesh ${sayWhere(by)} ${cluster} -> ${service.key.serviceAccount}:${bucket.port}`;
    }
    case 'status':
      return `${resolution.status} ${sayWhere(resolution.by)}`;
    default:
      return `${resolution.kind} ${sayWhere(resolution.by)}`;
  }
}

/** The same of what was seen; what fits no word is told with all its traces. */
export function sayTraces(traces: Traces): string {
  const { lines, report } = traces;
  const connection = lines.find(({ kind }) => kind === 'connection');
  if (connection === undefined) return sayUncaptured(traces) ?? tell(traces);
  const where = sayWhere({
    listenerPort: listenerPort(connection.listener),
    chain: connection.chain,
    waits: traces.dial.bytes === 'silent' && report.ms >= WAITED_MS,
  });
  const what = lines.find(({ kind }) => kind === 'request') ?? connection;
  if (what.cluster === `passthrough_${traces.dialler.resourceName}`) return sayPassthrough(traces, what, where);
  if (what.cluster !== '-' && what.cluster !== 'blackhole') return sayMesh(traces, what, where);
  const status = /^HTTP\/1\.[01] ([0-9]{3})/.exec(report.text)?.[1];
  // Only what a silent client said in the end was answered.
  if (status === '400' && traces.dial.bytes === 'silent') return `held ${where}`;
  if (status !== undefined) return `${status} ${where}`;
  return report.text === '' && report.end !== 'open' ? `closed ${where}` : tell(traces);
}

function sayWhere({ listenerPort, chain, waits }: CapturedBy): string {
  return `${listenerPort}${waits ? '~' : ''} ${chain}`;
}

function sayUncaptured(traces: Traces): string | undefined {
  const { report, dialler } = traces;
  if (report.end === 'ECONNREFUSED' && !report.isConnected) return 'reset';
  const answer = readAnswer(report);
  if (answer?.app === 'dns') return 'dns';
  if (answer?.app === 'outside' && isOwn(traces, answer.from)) return 'direct';
  return answer?.app === dialler.name ? 'direct' : undefined;
}

function sayPassthrough(traces: Traces, line: LogLine, where: string): string {
  const answer = readAnswer(traces.report);
  const { address, port } = traces.dial;
  const isAsDialled =
    line.upstream === (address.family === 4 ? `${address.text}:${port}` : `[${address.text}]:${port}`);
  if (answer?.app !== 'outside' || !isOwn(traces, answer.from) || !isAsDialled) return tell(traces);
  return `passthrough ${where}`;
}

function sayMesh(traces: Traces, line: LogLine, where: string): string {
  const answer = readAnswer(traces.report);
  const port = /^app_.*_([0-9]+)$/.exec(traces.hops.at(-1)?.cluster ?? '')?.[1];
  const isCaller = answer?.caller === undefined || answer.caller === traces.dialler.identity;
  if (answer === undefined || port === undefined || !isCaller) return tell(traces);
  return `mesh ${where} ${line.cluster} -> ${answer.app}:${port}`;
}

function isOwn({ dial, dialler }: Traces, from: string): boolean {
  return from === (dial.address.family === 4 ? dialler.ip4 : dialler.ip6);
}

const PORTS: readonly (readonly [string, number])[] = [
  ['capture_tcp_', 18002],
  ['capture_shim_', 18003],
  ['capture_', 18001],
];

function listenerPort(listener: string): number {
  return PORTS.find(([prefix]) => listener.startsWith(prefix))?.[1] ?? 0;
}

interface Answer {
  readonly app: string;
  readonly from: string;
  readonly caller?: string;
}

function readAnswer({ text }: DialReport): Answer | undefined {
  const json = /\{"app":[^{}]*\}/.exec(text)?.[0];
  return json === undefined ? undefined : (JSON.parse(json) as Answer); // printed by resolve-app
}

function tell({ report, lines, hops }: Traces): string {
  return JSON.stringify({ report, lines, hops });
}
