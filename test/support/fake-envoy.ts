// Envoy's end of an ADS session, driven by a test.
import type { AdsRequest, AdsResponse } from '../../src/agent/ads-protocol.ts';
import { AdsSession } from '../../src/agent/ads-session.ts';
import type { ResourceKind, Snapshot } from '../../src/xds/resource.ts';

/** `cluster +a@1 -b`: kind, then what is sent and what is removed. */
function show({ kind, resources, removed }: AdsResponse): string {
  const sent = resources.map((resource) => `+${resource.name}@${resource.version}`);
  return [kind, ...sent, ...removed.map((name) => `-${name}`)].join(' ');
}

interface Ask {
  readonly subscribe?: readonly string[];
  readonly unsubscribe?: readonly string[];
  readonly initial?: Readonly<Record<string, string>>;
}

/** Keeps what it was sent last, and answers it when told to. Answers are texts, `cluster +a@1 -b`. */
export class FakeEnvoy {
  readonly session: AdsSession;
  readonly pending = new Set<string>();
  readonly #nonces = new Map<ResourceKind, string>();

  constructor(snapshot: Snapshot | undefined) {
    this.session = new AdsSession(snapshot, { isPending: (_kind, name) => this.pending.has(name) });
  }

  ask(kind: ResourceKind, { subscribe = [], unsubscribe = [], initial = {} }: Ask = {}): readonly string[] {
    return this.#send({ kind, subscribe, unsubscribe, initialVersions: initial, nonce: '' });
  }

  ack(kind: ResourceKind, ask: Ask = {}): readonly string[] {
    const { subscribe = [], unsubscribe = [] } = ask;
    const nonce = this.#nonces.get(kind) ?? '';
    return this.#send({ kind, subscribe, unsubscribe, initialVersions: {}, nonce });
  }

  nack(kind: ResourceKind, error: string): readonly string[] {
    const nonce = this.#nonces.get(kind) ?? '';
    return this.#send({ kind, subscribe: [], unsubscribe: [], initialVersions: {}, nonce, error });
  }

  publish(snapshot: Snapshot): readonly string[] {
    return this.took(this.session.publish(snapshot));
  }

  took(responses: readonly AdsResponse[]): readonly string[] {
    for (const { kind, nonce } of responses) this.#nonces.set(kind, nonce);
    return responses.map(show);
  }

  #send(request: AdsRequest): readonly string[] {
    return this.took(this.session.receive(request).responses);
  }
}
