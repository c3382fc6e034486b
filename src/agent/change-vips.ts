// Addresses where a few services came or went: what planVips (vip-allocator.ts) gives, without looking at all the others.
import { compareText } from '../core/compare.ts';
import { compareIps, type IpAddress, type IpRange } from '../core/ip.ts';
import { findPlace } from '../core/merge-sorted.ts';
import {
  isOver,
  isUsable,
  listChoices,
  preferKept,
  type VipLease,
  type VipPlan,
  type VipRequest,
} from './vip-allocator.ts';

/** What changed since a plan without problems, under the same pins and ranges. */
export interface VipChange extends Pick<VipRequest, 'pins' | 'ranges' | 'nowMs'> {
  /** Services that are wanted now, and were not. */
  readonly come: ReadonlySet<string>;
  /** Those that are not wanted any more, and the addresses that they have. */
  readonly gone: ReadonlyMap<string, readonly IpAddress[]>;
}

/** `leases`: of that plan. The addresses are those of the services that came. Undefined: all is to be looked at. */
export function changeVips(leases: readonly VipLease[], change: VipChange): Omit<VipPlan, 'problems'> | undefined {
  const { come, gone, pins, ranges } = change;
  if ([...come, ...gone.keys()].some((service) => pins.has(service))) return undefined;
  const book = new Book(leases, change);
  const addresses = new Map<string, IpAddress[]>([...come].sort(compareText).map((service) => [service, []]));
  // As there: first everybody gets back what it had.
  for (const find of [(...args: Wish) => book.takeBack(...args), (...args: Wish) => book.choose(...args)]) {
    for (const [service, own] of addresses) {
      for (const range of ranges) {
        if (own.some(({ family }) => family === range.family)) continue;
        const address = find(service, range);
        if (address !== undefined) own.push(address);
      }
    }
  }
  for (const own of addresses.values()) {
    if (own.length < ranges.length) return undefined;
    own.sort(compareIps);
  }
  return { leases: book.leases, addresses };
}

type Wish = [service: string, range: IpRange];

class Book {
  /** Sorted by address. */
  readonly leases: VipLease[];
  /** What the services that came gave back. */
  readonly #own = new Map<string, VipLease[]>();
  readonly #pinned: ReadonlySet<string>;

  constructor(leases: readonly VipLease[], { come, gone, pins, nowMs }: VipChange) {
    for (const service of come) this.#own.set(service, []);
    // There may be tens of thousands: of most no more is looked at than that they are not given back.
    const released = leases.filter(({ releasedAtMs }) => releasedAtMs !== undefined);
    this.leases = released.some((lease) => isOver(lease, nowMs))
      ? leases.filter((lease) => !isOver(lease, nowMs))
      : leases.slice();
    for (const lease of released) if (!isOver(lease, nowMs)) this.#own.get(lease.service)?.push(lease);
    for (const [service, addresses] of gone) {
      for (const address of addresses) this.leases[this.#placeOf(address)] = { address, service, releasedAtMs: nowMs };
    }
    this.#pinned = new Set([...pins.values()].flat().map(({ text }) => text));
  }

  /** The address of this family that the service gave back last. */
  takeBack(service: string, range: IpRange): IpAddress | undefined {
    const [lease] = (this.#own.get(service) ?? [])
      .filter(({ address }) => isUsable(address, range) && !this.#pinned.has(address.text))
      .sort(preferKept);
    if (lease === undefined) return undefined;
    this.leases[this.#placeOf(lease.address)] = { address: lease.address, service };
    return lease.address;
  }

  choose(service: string, range: IpRange): IpAddress | undefined {
    for (const address of listChoices(service, range)) {
      const place = this.#placeOf(address);
      if (this.#pinned.has(address.text) || this.leases[place]?.address.text === address.text) continue;
      this.leases.splice(place, 0, { address, service });
      return address;
    }
    return undefined;
  }

  // Where it stands, or is to stand.
  #placeOf(address: IpAddress): number {
    return findPlace(this.leases, (lease) => compareIps(lease.address, address) < 0);
  }
}
