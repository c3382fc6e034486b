// Addresses of services on a node without a cluster's own: one IPv4 and one IPv6 a service, out of the node's ranges.
// A pure step from leases to leases. The choice follows from the key, so that the same services give the same addresses.
import { createHash } from 'node:crypto';
import { compareText } from '../core/compare.ts';
import { compareIps, type IpAddress, type IpRange, ipFromBytes, isInRange } from '../core/ip.ts';
import { runSteps, type Steps } from '../core/steps.ts';

/** One address that a service has or had. `releasedAtMs`: since when it has it no longer. */
export interface VipLease {
  readonly address: IpAddress;
  /** `<ns>/<sa>` */
  readonly service: string;
  readonly releasedAtMs?: number;
}

export interface VipRequest {
  /** Keys (`<ns>/<sa>`) of the services that are to have addresses; the others give theirs back. */
  readonly services: ReadonlySet<string>;
  /** Addresses fixed by the operator, in any range or none; for that family they replace the allocated one. */
  readonly pins: ReadonlyMap<string, readonly IpAddress[]>;
  /** At most one of a family. A family without a range gives allocated addresses to nobody. */
  readonly ranges: readonly IpRange[];
  readonly nowMs: number;
}

export interface VipPlan {
  /** Sorted by address; what is to be kept for the next step, released ones included. */
  readonly leases: readonly VipLease[];
  /** The addresses of each wanted service, sorted; the same lists as the active leases. */
  readonly addresses: ReadonlyMap<string, readonly IpAddress[]>;
  /** Sentences: a range that is used up. The service then lacks an address of that family. */
  readonly problems: readonly string[];
}

/** For so long an address that a service gave back is not given to another: clients may still hold the old answer. */
export const VIP_QUARANTINE_MS = 24 * 60 * 60 * 1000;

/** Plans who has which address now. The order of the inputs does not matter. */
export function planVips(leases: readonly VipLease[], request: VipRequest): VipPlan {
  return runSteps(planVipsInSteps(leases, request));
}

/** The same, a service at a time. */
export function* planVipsInSteps(leases: readonly VipLease[], request: VipRequest): Steps<VipPlan> {
  const book = new LeaseBook(leases, request);
  yield;
  const services = [...request.services].sort(compareText);
  const addresses = new Map<string, IpAddress[]>();
  for (const service of services) addresses.set(service, [...(request.pins.get(service) ?? [])]);
  for (const [service, fixed] of addresses) for (const address of fixed) book.hold(address, service);
  const problems: string[] = [];
  // First everybody keeps what it has; only then are new ones chosen, so that a newcomer never takes a known address.
  for (const choose of [(...args: Choice) => book.keep(...args), (...args: Choice) => book.choose(...args)]) {
    for (const [service, own] of addresses) {
      for (const range of request.ranges) {
        if (own.some((address) => address.family === range.family)) continue;
        const address = choose(service, range);
        if (address !== undefined) own.push(address);
      }
      yield;
    }
  }
  for (const range of request.ranges) {
    const without = [...addresses].filter(([, own]) => !own.some((address) => address.family === range.family));
    if (without.length === 0) continue;
    const names = without.map(([service]) => service).join(', ');
    problems.push(`the range ${range.text} is used up: no IPv${range.family} address for ${names}`);
  }
  for (const own of addresses.values()) own.sort(compareIps);
  yield;
  return { leases: book.finish(), addresses, problems };
}

/** How many addresses of a range can be given to services. */
export function countVips(range: IpRange): bigint {
  const size = 1n << BigInt((range.family === 4 ? 32 : 128) - range.prefixLength);
  // The network's address, the first one (by habit a gateway) and the last one (broadcast) stay free.
  return size > 3n ? size - 3n : 0n;
}

type Choice = [service: string, range: IpRange];

/** Who holds which address at the end of the step, and what was held before. */
class LeaseBook {
  readonly #before: ReadonlyMap<string, VipLease>;
  readonly #byService: ReadonlyMap<string, readonly VipLease[]>;
  readonly #held = new Map<string, VipLease>();
  readonly #pinned: ReadonlySet<string>;
  readonly #nowMs: number;

  constructor(leases: readonly VipLease[], request: VipRequest) {
    this.#nowMs = request.nowMs;
    const kept = leases.filter((lease) => !isOver(lease, request.nowMs));
    this.#before = new Map(kept.map((lease) => [lease.address.text, lease]));
    this.#byService = Map.groupBy(kept, (lease) => lease.service);
    this.#pinned = new Set([...request.pins.values()].flat().map((address) => address.text));
  }

  hold(address: IpAddress, service: string): IpAddress {
    this.#held.set(address.text, { address, service });
    return address;
  }

  /** The address of this family that the service has; else the one it gave back last, which nobody else may have yet. */
  keep(service: string, range: IpRange): IpAddress | undefined {
    const own = (this.#byService.get(service) ?? [])
      .filter((lease) => isUsable(lease.address, range) && this.#isFree(lease.address))
      .sort(preferKept);
    const [lease] = own;
    return lease === undefined ? undefined : this.hold(lease.address, service);
  }

  /** The first that nobody has or had. */
  choose(service: string, range: IpRange): IpAddress | undefined {
    for (const address of listChoices(service, range)) {
      if (this.#isFree(address) && !this.#before.has(address.text)) return this.hold(address, service);
    }
    return undefined;
  }

  finish(): readonly VipLease[] {
    const released = [...this.#before.values()]
      .filter((lease) => !this.#held.has(lease.address.text))
      .map((lease) => ({ ...lease, releasedAtMs: lease.releasedAtMs ?? this.#nowMs }));
    return [...released, ...this.#held.values()].sort((a, b) => compareIps(a.address, b.address));
  }

  #isFree(address: IpAddress): boolean {
    return !this.#held.has(address.text) && !this.#pinned.has(address.text);
  }
}

/** Whether the address may go to another. */
export function isOver({ releasedAtMs }: VipLease, nowMs: number): boolean {
  return releasedAtMs !== undefined && releasedAtMs + VIP_QUARANTINE_MS <= nowMs;
}

/** Orders the leases of one service: what it has, then what it gave back last. */
export function preferKept(a: VipLease, b: VipLease): number {
  const [since, other] = [a.releasedAtMs ?? Infinity, b.releasedAtMs ?? Infinity];
  return since === other ? compareIps(a.address, b.address) : other - since;
}

/** All addresses that a service may be given, in its order: a hash of the key says where to begin. */
export function* listChoices(service: string, range: IpRange): Generator<IpAddress> {
  const count = countVips(range);
  const start = count === 0n ? 0n : hashKey(`${range.family} ${service}`) % count;
  for (let step = 0n; step < count; step++) yield addressAt(range, ((start + step) % count) + FIRST_OFFSET);
}

const FIRST_OFFSET = 2n;

/** Whether a service may have it. */
export function isUsable(address: IpAddress, range: IpRange): boolean {
  if (!isInRange(address, range)) return false;
  const offset = toNumber(address.bytes) - toNumber(range.bytes);
  return offset >= FIRST_OFFSET && offset < FIRST_OFFSET + countVips(range);
}

function addressAt(range: IpRange, offset: bigint): IpAddress {
  const hex = (toNumber(range.bytes) + offset).toString(16).padStart(range.bytes.length * 2, '0');
  return ipFromBytes(
    Uint8Array.from({ length: hex.length / 2 }, (_, i) => Number.parseInt(hex.slice(i * 2, i * 2 + 2), 16)),
  );
}

function toNumber(bytes: Uint8Array): bigint {
  return bytes.reduce((number, byte) => (number << 8n) | BigInt(byte), 0n);
}

function hashKey(text: string): bigint {
  return createHash('sha256').update(text).digest().readBigUInt64BE(0);
}
