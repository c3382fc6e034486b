// The proposal's resolution table as dials: every spelling a client can write, and what it has to get, in both capture
// modes. Quickstart prints it, the end-to-end test asserts it, in both address families.
import { CHAIN_ANYPORT, CHAIN_PASSTHROUGH, CHAIN_TCP, inboundTcpChainName } from '../../src/mesh/names.ts';
import type { Dial, DialReport } from './dial.ts';
import { meshName } from './lab.ts';

/**
 * `spelling`: as a user would write it. `expected`: what `agrees` checks, in words. `chains`: what must have taken it
 * in Envoy, by stat prefix; `[]` means that the kernel alone decided, undefined that it does not matter.
 */
export interface ResolutionRow {
  readonly spelling: string;
  readonly dial: Omit<Dial, 'family' | 'timeoutMs'>;
  readonly expected: string;
  readonly agrees: (report: DialReport) => boolean;
  readonly withinMs: number;
  readonly chains?: readonly string[];
}

export type CaptureMode = 'redirect-all' | 'scoped';

/** Below the second that a listener waits for a silent client: what is faster was decided without waiting. */
const PROMPT_MS = 500;
/** A second of waiting, or the two that Envoy waits for a cluster which it has been told before is not there. */
const AFTER_WAITING_MS = 3500;

const SHOP = meshName('shop');
const DB = meshName('db');
const WEB = meshName('web');
const VAULT = meshName('vault');
/** Could become an HTTP request line, so a listener that looks for HTTP would wait a second for more. */
const MAYBE_HTTP = 'ping-long';
/** Cannot be HTTP or TLS. */
const NOT_HTTP = '\u0001\u0002binary bytes';

const REDIRECT_ALL: readonly ResolutionRow[] = [
  http(`http://${SHOP}/`, SHOP, 80, served('shop', 8080)),
  http(`http://${SHOP}:18081/`, SHOP, 18081, served('shop', 8080)),
  http(`http://${SHOP}:8080/`, SHOP, 8080, served('shop', 8080)),
  raw(`${SHOP}:18082`, SHOP, 18082, echoed('shop', 9000)),
  raw(`${SHOP}:9000`, SHOP, 9000, echoed('shop', 9000)),
  http(`http://${SHOP}:9000/ (a TCP port)`, SHOP, 9000, echoed('shop', 9000)),
  http(`http://${DB}/`, DB, 80, noHttpPort()),
  http(`http://${DB}:18081/`, DB, 18081, noHttpPort()),
  silent(`${DB}:5432`, DB, 5432, greeted('db', 5432)),
  raw(`${DB}:5432`, DB, 5432, greeted('db', 5432)),
  silent(`${DB}:18082`, DB, 18082, greeted('db', 5432)),
  raw(`${DB}:18082`, DB, 18082, greeted('db', 5432)),
  binary(`${DB}:9999`, DB, 9999, greeted('db', 5432, { capture: CHAIN_ANYPORT })),
  { ...silent(`${DB}:9999`, DB, 9999, greeted('db', 5432, { capture: CHAIN_ANYPORT })), withinMs: AFTER_WAITING_MS },
  {
    ...http(`http://${DB}/ dialled at :9999`, DB, 9999, noHttpPort()),
    dial: { kind: 'http', host: DB, port: 9999, authority: DB },
  },
  { ...http(`http://${DB}:9999/`, DB, 9999, unknownPort()), withinMs: AFTER_WAITING_MS },
  http(`http://${WEB}/`, WEB, 80, served('web', 8080)),
  {
    ...http(`http://${WEB}/ dialled at :9000`, WEB, 9000, served('web', 8080)),
    dial: { kind: 'http', host: WEB, port: 9000, authority: WEB },
  },
  raw(`${WEB}:18082`, WEB, 18082, refused()),
  silent(`${WEB}:18082`, WEB, 18082, refused()),
  http(`http://${WEB}:18082/`, WEB, 18082, refused()),
  { ...http(`http://${WEB}:9001/`, WEB, 9001, unknownPort()), withinMs: AFTER_WAITING_MS },
  tls(`https://${VAULT}/`, VAULT, greeted('vault', 443, { inbound: inboundTcpChainName('demo_vault-0', 443) })),
  http(`http://${VAULT}/`, VAULT, 80, served('vault', 8080)),
  tls(`https://${WEB}/`, WEB, failedFast()),
  tls(`https://${SHOP}/`, SHOP, failedFast()),
  binary(`${SHOP}:9001`, SHOP, 9001, failedFast()),
  udp(`${WEB}:18081`, WEB, 18081),
];

const SCOPED: readonly ResolutionRow[] = [
  http(`http://${SHOP}:18081/`, SHOP, 18081, served('shop', 8080)),
  raw(`${SHOP}:18082`, SHOP, 18082, echoed('shop', 9000)),
  silent(`${DB}:18082`, DB, 18082, greeted('db', 5432)),
  raw(`${DB}:18082`, DB, 18082, greeted('db', 5432)),
  http(`http://${DB}:18081/`, DB, 18081, noHttpPort()),
  binary(`${DB}:18081`, DB, 18081, greeted('db', 5432, { capture: CHAIN_ANYPORT })),
  raw(`${WEB}:18082`, WEB, 18082, refused()),
  silent(`${WEB}:18082`, WEB, 18082, refused()),
  http(`http://${WEB}:18082/`, WEB, 18082, refused()),
  http(`http://${WEB}/`, WEB, 80, notCaptured()),
  raw(`${SHOP}:9000`, SHOP, 9000, notCaptured()),
  tls(`https://${WEB}/`, WEB, notCaptured()),
  udp(`${WEB}:18081`, WEB, 18081),
];

/** The rows of a mode, in the order of the proposal's table. */
export function resolutionRows(mode: CaptureMode): readonly ResolutionRow[] {
  return mode === 'redirect-all' ? REDIRECT_ALL : SCOPED;
}

/** What a client saw, in few words: `200 shop:8080`, `shop:9000 ping-long`, `refused`. */
export function describeReport(report: DialReport): string {
  if (report.status !== undefined) {
    const app = appOf(report);
    const error = report.headers?.['x-aether-error'];
    return [report.status, app ?? error].filter((part) => part !== undefined).join(' ');
  }
  if (report.outcome === 'answered') return (report.text ?? '').split('\r\n')[0]?.trim() ?? '';
  return report.error === undefined ? report.outcome : `${report.outcome} (${report.error})`;
}

type Expectation = Pick<ResolutionRow, 'expected' | 'agrees' | 'chains'>;

function http(spelling: string, host: string, port: number, expectation: Expectation): ResolutionRow {
  return { spelling, dial: { kind: 'http', host, port }, withinMs: PROMPT_MS, ...expectation };
}

function raw(name: string, host: string, port: number, expectation: Expectation): ResolutionRow {
  const dial = { kind: 'raw', host, port, text: MAYBE_HTTP } as const;
  return { spelling: `${name} raw bytes`, dial, withinMs: PROMPT_MS, ...expectation };
}

function binary(name: string, host: string, port: number, expectation: Expectation): ResolutionRow {
  const dial = { kind: 'raw', host, port, text: NOT_HTTP } as const;
  return { spelling: `${name} raw bytes, not HTTP`, dial, withinMs: PROMPT_MS, ...expectation };
}

function silent(name: string, host: string, port: number, expectation: Expectation): ResolutionRow {
  return {
    spelling: `${name} silent client`,
    dial: { kind: 'silent', host, port },
    withinMs: PROMPT_MS,
    ...expectation,
  };
}

function tls(spelling: string, host: string, expectation: Expectation): ResolutionRow {
  const dial = { kind: 'tls', host, port: 443, serverName: host } as const;
  return { spelling, dial, withinMs: PROMPT_MS, ...expectation };
}

function udp(name: string, host: string, port: number): ResolutionRow {
  const dial = { kind: 'udp', host, port, text: MAYBE_HTTP } as const;
  const agrees = (report: DialReport) => report.outcome === 'refused';
  return { spelling: `${name} UDP`, dial, withinMs: PROMPT_MS, expected: 'refused at once', agrees, chains: [] };
}

function served(app: string, port: number): Expectation {
  return {
    expected: `200 ${app}:${port}`,
    agrees: (report) => report.status === 200 && appOf(report) === `${app}:${port}`,
    chains: ['capture_http', 'inbound'],
  };
}

function echoed(app: string, port: number): Expectation {
  return {
    expected: `echo of ${app}:${port}`,
    agrees: (report) => report.status === undefined && report.text?.startsWith(`${app}:${port} `) === true,
    chains: [CHAIN_TCP, inboundTcpChainName(`demo_${app}-0`, port)],
  };
}

// By default the floor of a pure TCP pod: without a server name on the hop.
function greeted(
  app: string,
  port: number,
  chains: { readonly capture?: string; readonly inbound?: string } = {},
): Expectation {
  const { capture = CHAIN_TCP, inbound = inboundTcpChainName(`demo_${app}-0`) } = chains;
  return {
    expected: `banner of ${app}:${port}`,
    agrees: (report) => report.text === `HELLO from ${app}:${port}\n`,
    chains: [capture, inbound],
  };
}

function noHttpPort(): Expectation {
  return {
    expected: '421 no-http-port',
    agrees: (report) => report.status === 421 && report.headers?.['x-aether-error'] === 'no-http-port',
    chains: ['capture_http'],
  };
}

function unknownPort(): Expectation {
  return { expected: '503', agrees: (report) => report.status === 503, chains: ['capture_http'] };
}

function refused(): Expectation {
  return {
    expected: 'refused at once',
    agrees: (report) => report.outcome === 'refused' && report.afterConnect === false,
    chains: [],
  };
}

function failedFast(): Expectation {
  return {
    expected: 'refused',
    agrees: (report) => ['refused', 'closed', 'unreachable'].includes(report.outcome),
    chains: [CHAIN_PASSTHROUGH],
  };
}

function notCaptured(): Expectation {
  return {
    expected: 'refused, not captured',
    agrees: (report) => report.outcome === 'refused' && report.afterConnect === false,
    chains: [],
  };
}

function appOf(report: DialReport): string | undefined {
  try {
    const body: unknown = JSON.parse(report.text ?? '');
    if (typeof body !== 'object' || body === null || !('app' in body) || !('port' in body)) return undefined;
    return `${body.app}:${body.port}`;
  } catch {
    return undefined;
  }
}
