// What the pods of this node have in the registry. Each address of a service is claimed by one pod; the registry is
// brought to that, and tried again with back-off where it was away. Every write covers every protocol, or is not done.
import { messageOf } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import type { Health } from '../mesh/endpoint.ts';
import { formatServiceKey, type ServiceKey } from '../mesh/names.ts';
import type { Protocol } from '../mesh/port-protocols.ts';
import type { Registry } from '../registry/contract.ts';
import type { AgentPod } from './agent-pod.ts';
import type { Clock } from './deps.ts';

const FIRST_RETRY_MS = 1000;
const LAST_RETRY_MS = 30_000;

interface Place {
  readonly key: ServiceKey;
  readonly ip: string;
}

export interface PodRegistrarOptions {
  readonly registry: Registry;
  readonly clock: Clock;
  readonly log: Log;
  /** Asked at each write. */
  readonly healthOf: (pod: AgentPod) => Health;
}

/** Never rejects: a write that fails is tried again until it is done or replaced. Disposing ends the retries. */
export class PodRegistrar {
  readonly #options: PodRegistrarOptions;
  /** Who is to stand at a place; by `<ns>/<sa> <ip>`. */
  readonly #claims = new Map<string, AgentPod>();
  /** The protocols under which a place was written, as far as this process knows. */
  readonly #written = new Map<string, ReadonlySet<Protocol>>();
  readonly #pending = new Map<string, Place>();
  #tail: Promise<void> = Promise.resolve();
  #retryMs = FIRST_RETRY_MS;
  #retry: Disposable | undefined;

  constructor(options: PodRegistrarOptions) {
    this.#options = options;
  }

  /** Registers the pod under each of its protocols, in place of whoever had its address. True: the registry has it now. */
  async claim(pod: AgentPod): Promise<boolean> {
    const place = placeOf(pod);
    if (place === undefined) return true;
    this.#claims.set(nameOf(place), pod);
    return this.#write([place]);
  }

  /** Writes a registered pod once more: its health has changed. Done as well when its address is another container's by now. */
  async rewrite(pod: AgentPod): Promise<boolean> {
    const place = placeOf(pod);
    return place !== undefined && isSameContainer(this.#claims.get(nameOf(place)), pod) ? this.#write([place]) : true;
  }

  /** Removes all addresses of the pod, but none that another pod of the service has claimed since. */
  async release(pod: AgentPod): Promise<boolean> {
    const places = pod.workload.ips.map((ip) => ({ key: pod.workload.service, ip: ip.text }));
    const ours = places.filter((place) => {
      const claim = this.#claims.get(nameOf(place));
      return claim === undefined || isSameContainer(claim, pod);
    });
    for (const place of ours) this.#claims.delete(nameOf(place));
    return this.#write(ours);
  }

  /** Whether the registry has everything of the pod, under every protocol; a pod without an address has nothing there. */
  isRegistered(pod: AgentPod): boolean {
    const place = placeOf(pod);
    return place === undefined || (this.#claims.get(nameOf(place)) === pod && !this.#pending.has(nameOf(place)));
  }

  /** Whether others may be sent to the pod now. */
  isOffered(pod: AgentPod): boolean {
    const place = placeOf(pod);
    const claim = place && this.#claims.get(nameOf(place));
    return claim !== undefined && isSameContainer(claim, pod) && this.#options.healthOf(claim) !== 'unhealthy';
  }

  /** How many writes wait for the registry. */
  get pendingCount(): number {
    return this.#pending.size;
  }

  [Symbol.dispose](): void {
    this.#retry?.[Symbol.dispose]();
  }

  async #write(places: readonly Place[]): Promise<boolean> {
    for (const place of places) this.#pending.set(nameOf(place), place);
    const turn = this.#tail.then(async () => {
      for (const place of places) await this.#settle(place);
    });
    this.#tail = turn;
    await turn;
    return places.every((place) => !this.#pending.has(nameOf(place)));
  }

  async #settle(place: Place): Promise<void> {
    const name = nameOf(place);
    if (!this.#pending.has(name)) return;
    try {
      await this.#bring(place, this.#claims.get(name));
      this.#pending.delete(name);
      this.#retryMs = FIRST_RETRY_MS;
    } catch (error) {
      const fields = { service: formatServiceKey(place.key), ip: place.ip, retryMs: this.#retryMs };
      this.#options.log.warn('agent.registry.write_failed', { ...fields, reason: messageOf(error) });
      this.#scheduleRetry();
    }
  }

  // The registry removes an address under all protocols at once: a place that lost a protocol is removed, then written.
  async #bring(place: Place, claim: AgentPod | undefined): Promise<void> {
    const { registry } = this.#options;
    const name = nameOf(place);
    const before = this.#written.get(name) ?? (claim && (await this.#findWritten(place, claim)));
    if (claim === undefined || [...(before ?? [])].some((protocol) => !claim.protocols.includes(protocol))) {
      await registry.unregisterEndpoint(place.key, place.ip);
      this.#written.delete(name);
    }
    if (claim?.endpoint === undefined) return;
    // Noted before it is known to have worked: a failure leaves open which of them were written.
    this.#written.set(name, new Set([...(this.#written.get(name) ?? []), ...claim.protocols]));
    const endpoint = { ...claim.endpoint, health: this.#options.healthOf(claim) };
    for (const protocol of claim.protocols) await registry.registerEndpoint(place.key, protocol, endpoint);
  }

  // An earlier process, or an agent that knew no types, may have written the pod under a protocol that it does not have.
  async #findWritten({ key, ip }: Place, { protocols }: AgentPod): Promise<ReadonlySet<Protocol>> {
    const others = (['http', 'tcp'] as const).filter((protocol) => !protocols.includes(protocol));
    const found = new Set<Protocol>();
    for (const protocol of others) {
      const listed = await this.#options.registry.listEndpoints(key, protocol);
      if (listed.some((endpoint) => endpoint.ip === ip)) found.add(protocol);
    }
    return found;
  }

  #scheduleRetry(): void {
    // One timer for all that wait: what fails together is one failure.
    if (this.#retry !== undefined) return;
    this.#retry = this.#options.clock.after(this.#retryMs, () => {
      this.#retry = undefined;
      void this.#write([...this.#pending.values()]);
    });
    this.#retryMs = Math.min(this.#retryMs * 2, LAST_RETRY_MS);
  }
}

function placeOf({ workload, endpoint }: AgentPod): Place | undefined {
  return endpoint && { key: workload.service, ip: endpoint.ip };
}

function isSameContainer(a: AgentPod | undefined, b: AgentPod): boolean {
  return a?.workload.record.containerId === b.workload.record.containerId;
}

function nameOf({ key, ip }: Place): string {
  return `${formatServiceKey(key)} ${ip}`;
}
