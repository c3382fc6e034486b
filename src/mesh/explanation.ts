// The answer of `explain`: what one destination means to one pod, step by step. A plain value: it is printed for people
// (format-explanation.ts), as JSON as it stands here, and sent over admin.sock.
import type { Health } from './endpoint.ts';
import type { Resolution } from './resolution.ts';
import type { FirstBytes } from './resolve-in-kernel.ts';

export interface Explanation {
  /** `demo/client-0` */
  readonly pod: string;
  readonly captureMode: 'redirect-all' | 'scoped';
  /** As asked: `http://shop.demo.aether.internal/` */
  readonly destination: string;
  /** What the client sends first; `authority`: the Host of HTTP, else empty. */
  readonly bytes: FirstBytes;
  readonly authority: string;
  /** A sentence: what the name means, and who says so. Empty where an address was asked about. */
  readonly name: string;
  /** One for each address of the name. None: the name has none. */
  readonly dials: readonly ExplainedDial[];
  /** Sentences: what else is worth knowing. */
  readonly notes: readonly string[];
  /** Whether every dial leads somewhere. */
  readonly resolved: boolean;
  /** A sentence: what happens in the end. */
  readonly verdict: string;
}

/** Texts are empty and numbers 0 where a step is not reached. */
export interface ExplainedDial {
  /** Empty: an address outside the mesh, whichever the name has. */
  readonly address: string;
  readonly port: number;
  /** The rule that decides, as nft prints it, and its table of family inet. Empty: none takes it. */
  readonly rule: string;
  readonly table: string;
  readonly outcome: Resolution['kind'];
  /** `capture_demo_client-0` */
  readonly listener: string;
  readonly listenerPort: number;
  readonly chain: string;
  /** HTTP status that Envoy answers itself. */
  readonly status: number;
  readonly cluster: string;
  /** Where the mesh leads to; only of outcome `mesh`. */
  readonly target?: ExplainedTarget;
  readonly resolved: boolean;
  readonly verdict: string;
  /** What would lead somewhere: `HTTP at http://shop.demo.aether.internal/; TCP at …`. */
  readonly hint: string;
}

export interface ExplainedTarget {
  /** `demo/shop` */
  readonly service: string;
  /** The application's port. */
  readonly port: number;
  readonly protocol: 'http' | 'tcp';
  /** SNI of the mesh hop; empty: none. */
  readonly serverName: string;
  /** Who the server may be, SPIFFE ids. Empty: the hop is clear text. */
  readonly serverIdentities: readonly string[];
  readonly endpoints: readonly ExplainedEndpoint[];
}

export interface ExplainedEndpoint {
  readonly ip: string;
  /** `demo/shop-0` */
  readonly pod: string;
  readonly node: string;
  readonly health: Health;
  /** Whether Envoy would choose it. */
  readonly available: boolean;
}
