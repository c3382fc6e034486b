// What a dial from a pod can become, in both forms of capture, and HTTP's part of it, which is the same in both.
import { CHAIN_CAPTURE } from './names.ts';
import { type AuthorityAnswer, resolveAuthority } from './resolve-authority.ts';
import type { Dial, DirectReason, ResolveContext } from './resolve-in-kernel.ts';
import type { PortBucket, ServiceView } from './service-view.ts';

/** Where Envoy took the connection: listener port and chain; `waits` is the inspectors' 1 s for a silent client. */
export interface CapturedBy {
  readonly listenerPort: number;
  readonly chain: string;
  readonly waits: boolean;
}

export type Resolution =
  /** Not captured: on to the address dialled, from the pod itself. */
  | { readonly kind: 'direct'; readonly reason: DirectReason }
  /** To the node's mesh DNS. */
  | { readonly kind: 'dns' }
  /** Refused by the kernel at once. */
  | { readonly kind: 'reset' }
  /** Envoy closes the connection: the chain leads nowhere by design. */
  | { readonly kind: 'closed'; readonly by: CapturedBy }
  /** Envoy waits for a request, and the client for the server: nothing happens until one of them gives up. */
  | { readonly kind: 'held'; readonly by: CapturedBy }
  /** Envoy connects to the address dialled, from the pod's own namespace. */
  | { readonly kind: 'passthrough'; readonly by: CapturedBy }
  /** Envoy answers HTTP itself: 421 (no HTTP port), 503 (nobody registered that port), 400 (not HTTP, or without Host). */
  | { readonly kind: 'status'; readonly by: CapturedBy; readonly status: 400 | 421 | 503 }
  /** Over the mesh to an endpoint of the bucket. */
  | {
      readonly kind: 'mesh';
      readonly by: CapturedBy;
      readonly cluster: string;
      readonly service: ServiceView;
      readonly bucket: PortBucket;
    };

/** Captured HTTP, taken by the listener `at`: by authority. */
export function resolveHttp(dial: Dial, at: Omit<CapturedBy, 'chain'>, context: ResolveContext): Resolution {
  const by = { ...at, chain: CHAIN_CAPTURE };
  if (dial.authority === undefined) return { kind: 'status', by, status: 400 };
  const answer: AuthorityAnswer = resolveAuthority(dial.authority, context);
  switch (answer.kind) {
    case 'mesh':
      return { ...answer, by };
    case 'status':
      return { kind: 'status', by, status: answer.status };
    case 'foreign':
      return { kind: 'passthrough', by };
  }
}
