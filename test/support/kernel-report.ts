// What a kernel reports that holds exactly the plan; sets in another order than ours, as a kernel may have them.
import type { KernelTable } from '../../src/nft/kernel-table.ts';
import { lowerTable } from '../../src/nft/lower.ts';
import type { Table } from '../../src/nft/model.ts';

export function reportTable(table: Table): KernelTable {
  const lowered = lowerTable(table);
  return {
    name: table.name,
    isDormant: false,
    chains: lowered.chains.map(({ name, priority, rules }) => ({
      name,
      base: { type: 'nat', hook: 'output', priority, policy: 'accept' },
      rules,
    })),
    sets: lowered.sets.map(({ name, keyType, keyLength, isInterval, elements }) => ({
      name,
      keyType,
      keyLength,
      flags: isInterval ? 4 : 0,
      elements: Array.from({ length: elements.count }, (_, i) => ({
        key: elements.keys.subarray(i * keyLength, (i + 1) * keyLength),
        isEnd: elements.ends[i] === 1,
      })).reverse(),
    })),
  };
}
