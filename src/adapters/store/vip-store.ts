// Who has and had which address, on disk: `{"leases":[{"address":"10.254.3.7","service":"demo/shop"},…]}`, a lease that was
// given back with `"releasedAt":"2026-11-29T12:00:00.000Z"`. Without this file a restart could move a service.
import { readFile, rename } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import type { VipStore } from '../../agent/deps.ts';
import type { VipLease } from '../../agent/vip-allocator.ts';
import { messageOf, StoreError } from '../../core/errors.ts';
import { compareIps, type IpAddress, parseIp } from '../../core/ip.ts';
import { parseServiceKey } from '../../mesh/names.ts';
import { isAbsent, makePrivateDir, removeTemporaries, writeFileAtomically } from './atomic-file.ts';

/** One file, one process. */
export class FileVipStore implements VipStore {
  readonly #path: string;
  /** What was saved last, and how: most of it stays. */
  #saved: readonly VipLease[] = [];
  #texts: readonly string[] = [];

  constructor(path: string) {
    this.#path = path;
  }

  /** A file that cannot be read as leases is moved aside (`.broken`) and named: the agent must start all the same. */
  async load(): ReturnType<VipStore['load']> {
    await makePrivateDir(dirname(this.#path));
    await removeTemporaries(dirname(this.#path), { of: basename(this.#path) });
    let text: string;
    try {
      text = await readFile(this.#path, 'utf8');
    } catch (error) {
      if (isAbsent(error)) return { leases: [] };
      throw new StoreError(`reading ${this.#path}: ${messageOf(error)}`, { cause: error });
    }
    try {
      return { leases: parseLeases(text) };
    } catch (error) {
      await rename(this.#path, `${this.#path}.broken`);
      return { leases: [], broken: `${this.#path} (moved to ${this.#path}.broken): ${messageOf(error)}` };
    }
  }

  async save(leases: readonly VipLease[]): Promise<void> {
    const texts = this.#format(leases);
    [this.#saved, this.#texts] = [leases, texts];
    await writeFileAtomically(this.#path, `{"leases":[\n${texts.join(',\n')}\n]}\n`);
  }

  // Both lists are in the order of the addresses.
  #format(leases: readonly VipLease[]): readonly string[] {
    let next = 0;
    const isPassed = (address: IpAddress): boolean => {
      const saved = this.#saved[next];
      return saved !== undefined && compareIps(saved.address, address) < 0;
    };
    return leases.map((lease) => {
      if (this.#saved[next] !== lease) while (isPassed(lease.address)) next++;
      if (this.#saved[next] !== lease) return formatLease(lease);
      return this.#texts[next++] ?? '';
    });
  }
}

function formatLease({ address, service, releasedAtMs }: VipLease): string {
  const releasedAt = releasedAtMs === undefined ? undefined : new Date(releasedAtMs).toISOString();
  return JSON.stringify({ address: address.text, service, releasedAt });
}

function parseLeases(text: string): readonly VipLease[] {
  const root: unknown = JSON.parse(text);
  if (typeof root !== 'object' || root === null || !('leases' in root) || !Array.isArray(root.leases)) {
    throw new TypeError('must be an object with a list "leases"');
  }
  return root.leases.map(parseLease);
}

function parseLease(item: unknown, index: number): VipLease {
  if (typeof item === 'object' && item !== null && 'address' in item && 'service' in item) {
    const address = typeof item.address === 'string' ? parseIp(item.address) : undefined;
    const service = typeof item.service === 'string' ? item.service : '';
    const releasedAt = 'releasedAt' in item ? Date.parse(String(item.releasedAt)) : undefined;
    if (address !== undefined && parseServiceKey(service) !== undefined && !Number.isNaN(releasedAt)) {
      return { address, service, ...(releasedAt === undefined ? {} : { releasedAtMs: releasedAt }) };
    }
  }
  throw new TypeError(`leases[${index}] is no lease`);
}
