// An Envoy without Envoy: it asks for everything, takes everything, and costs next to nothing. What is sent is encoded as for
// the real one.
import { DELTA_METHOD } from '../../src/adapters/grpc/ads-messages.ts';
import type { AdsRequest, AdsResponse } from '../../src/agent/ads-protocol.ts';
import type { AdsStream, SnapshotCache } from '../../src/agent/snapshot-cache.ts';
import type { ResourceKind } from '../../src/xds/resource.ts';

export class AckingEnvoy {
  readonly #stream: AdsStream;
  #bytes = 0;

  constructor(cache: SnapshotCache, tables: readonly string[]) {
    this.#stream = cache.openStream((response) => this.#take(response));
    this.#ask('cluster');
    this.#ask('listener');
    this.#ask('routes', { subscribe: tables });
    this.#ask('host');
  }

  /** Bytes that came since the last call. */
  take(): number {
    const bytes = this.#bytes;
    this.#bytes = 0;
    return bytes;
  }

  #take(response: AdsResponse): void {
    this.#bytes += DELTA_METHOD.responseSerialize(response).length;
    const edsNames = response.kind === 'cluster' ? response.resources.flatMap(({ edsName }) => edsName ?? []) : [];
    // Its answer comes later than what it answers.
    setImmediate(() => {
      this.#ask(response.kind, { nonce: response.nonce });
      if (edsNames.length > 0) this.#ask('endpoints', { subscribe: edsNames });
    });
  }

  #ask(kind: ResourceKind, more: Partial<AdsRequest> = {}): void {
    this.#stream.receive({ kind, subscribe: [], unsubscribe: [], initialVersions: {}, nonce: '', ...more });
  }
}
