// The comparison on values; against a real kernel it is tested in test/adapters/kernel/dump-table.test.ts.
import t from 'tap';
import { compareTable, formatDifference } from '../../src/nft/compare.ts';
import type { KernelChain, KernelSet, KernelTable } from '../../src/nft/kernel-table.ts';
import { TABLES } from '../support/capture-cases.ts';
import { reportTable } from '../support/kernel-report.ts';

const planned = TABLES['plugin-exclusions'] ?? { name: '', sets: [], chains: [] };
const found = reportTable(planned);

const differences = (other: KernelTable | undefined) => compareTable(planned, other).map(formatDifference);
const withChain = (change: (chain: KernelChain) => KernelChain): KernelTable => ({
  ...found,
  chains: found.chains.map(change),
});
const withSet = (name: string, change: (set: KernelSet) => KernelSet): KernelTable => ({
  ...found,
  sets: found.sets.map((set) => (set.name === name ? change(set) : set)),
});
const withRules = (change: (rules: KernelChain['rules'][number][]) => unknown): KernelTable =>
  withChain((chain) => {
    const rules = [...chain.rules];
    change(rules);
    return { ...chain, rules };
  });

for (const [name, table] of Object.entries(TABLES)) {
  t.test(`compareTable() finds nothing where the kernel holds ${name}`, (t) => {
    t.strictSame(compareTable(table, reportTable(table)), []);
    t.end();
  });
}

const drop = [{ kind: 'foreign', name: 'drop', detail: '' }] as const;
const counter = { kind: 'foreign', name: 'counter', detail: '' } as const;
const chainName = 'type nat hook output priority';

const CASES: readonly (readonly [title: string, found: KernelTable | undefined, want: readonly string[]])[] = [
  ['no table', undefined, ['missing table inet aether']],
  [
    'a dormant table',
    { ...found, isDormant: true },
    ['changed table inet aether: planned active, found flags dormant'],
  ],
  [
    'a missing rule',
    withRules((rules) => rules.splice(1, 1)),
    ['missing rule 2 of chain "output": "ip daddr 127.0.0.0/8 accept"'],
  ],
  ['an extra rule', withRules((rules) => rules.unshift(drop)), ['extra rule 1 of chain "output": "[ drop ]"']],
  [
    'a rule twice',
    withRules((rules) => rules.push(rules[0] ?? [])),
    ['extra rule 16 of chain "output": "meta mark 0x0000ae7e accept"'],
  ],
  [
    'a changed rule',
    withRules((rules) => rules.splice(1, 1, drop)),
    ['changed rule 2 of chain "output": planned "ip daddr 127.0.0.0/8 accept", found "[ drop ]"'],
  ],
  [
    'a moved rule',
    withRules((rules) => rules.push(...rules.splice(0, 1))),
    ['reordered rule 1 of chain "output": "meta mark 0x0000ae7e accept"'],
  ],
  ['counters', withChain((chain) => ({ ...chain, rules: chain.rules.map((rule) => [counter, ...rule]) })), []],
  [
    'another priority',
    withChain((chain) => ({ ...chain, base: { type: 'nat', hook: 'output', priority: 0, policy: 'accept' } })),
    [`changed chain "output": planned "${chainName} -100; policy accept", found "${chainName} 0; policy accept"`],
  ],
  [
    'another policy',
    withChain((chain) => ({ ...chain, base: { type: 'nat', hook: 'output', priority: -100, policy: 'drop' } })),
    [`changed chain "output": planned "${chainName} -100; policy accept", found "${chainName} -100; policy drop"`],
  ],
  [
    'a chain without hook',
    withChain(({ name, rules }) => ({ name, rules })),
    [`changed chain "output": planned "${chainName} -100; policy accept", found "no hook"`],
  ],
  ['an extra chain', { ...found, chains: [...found.chains, { name: 'x', rules: [] }] }, ['extra chain "x"']],
  ['a missing chain', { ...found, chains: [] }, ['missing chain "output"']],
  ['a missing set', { ...found, sets: found.sets.slice(1) }, ['missing set "exclude_ports"']],
  ['an extra set', withSet('exclude4', (set) => ({ ...set, name: 'y' })), ['missing set "exclude4"', 'extra set "y"']],
  [
    'a set of another type',
    withSet('exclude4', (set) => ({ ...set, keyType: 13, keyLength: 2 })),
    ['changed set "exclude4": planned type ipv4_addr, found key type 13 of 2 bytes'],
  ],
  [
    'a set with other flags',
    withSet('exclude4', (set) => ({ ...set, flags: 0x10 })),
    ['changed set "exclude4": planned flags 0x4, found flags 0x10'],
  ],
  [
    'missing and extra elements',
    withSet('exclude_ports', (set) => ({
      ...set,
      elements: [
        { key: Uint8Array.of(0, 22), isEnd: false },
        { key: Uint8Array.of(0, 24), isEnd: true },
      ],
    })),
    [
      'missing element { 22 } of set "exclude_ports"',
      'missing element { 8000-8100 } of set "exclude_ports"',
      'missing element { 65000-65535 } of set "exclude_ports"',
      'extra element { 22-23 } of set "exclude_ports"',
    ],
  ],
];

for (const [title, other, want] of CASES) {
  t.test(`compareTable() reports ${title}`, (t) => {
    t.strictSame(differences(other), want);
    t.end();
  });
}

t.test('compareTable() can leave elements out', (t) => {
  const empty = withSet('exclude4', (set) => ({ ...set, elements: [] }));
  t.not(compareTable(planned, empty).length, 0);
  t.strictSame(compareTable(planned, empty, { ignoreElements: true }), []);
  t.end();
});
