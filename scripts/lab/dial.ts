// What a lab client is told to dial and what it reports: the lines of JSON between the lab and the worker in the pod.

/**
 * `http`: one HTTP/1.1 GET. `raw`: sends `text`. `silent`: sends nothing and waits for the server. `tls`: a handshake
 * that accepts any server, then `text` where given. `udp`: one datagram.
 */
export type DialKind = 'http' | 'raw' | 'silent' | 'tls' | 'udp';

export interface Dial {
  readonly kind: DialKind;
  /** A mesh name, resolved by the pod's DNS, or an address. */
  readonly host: string;
  readonly port: number;
  readonly family: 4 | 6;
  readonly timeoutMs: number;
  /** Host header of `http`; default `host`, with the port unless it is 80. */
  readonly authority?: string;
  readonly text?: string;
  /** Of `tls`: certificate and key (PEM), server name, ALPN protocols. */
  readonly certificate?: { readonly cert: string; readonly key: string };
  readonly serverName?: string;
  readonly alpn?: readonly string[];
}

/**
 * `answered`: bytes came back. `closed`: the connection was made and ended without a byte. `refused`: a reset, before
 * or after the connection was made (`afterConnect`). `unreachable`: an ICMP error. `silent`: nothing within the time.
 */
export type DialOutcome = 'answered' | 'closed' | 'refused' | 'unreachable' | 'silent' | 'unresolved' | 'failed';

export interface DialReport {
  readonly outcome: DialOutcome;
  /** From the first packet of the connection (DNS not included) to the outcome, or to the first byte. */
  readonly ms: number;
  readonly dnsMs: number;
  readonly address?: string;
  /** What came back as text, at most 4 kB; of `http` the body. */
  readonly text?: string;
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly error?: string;
  readonly afterConnect?: boolean;
}
