// Reading tables back from a real kernel, and finding what somebody has done to them with nft.
import t from 'tap';
import { createRules } from '../../../src/adapters/kernel/rules.ts';
import { planMeshTable } from '../../../src/capture/mesh-table.ts';
import type { NetnsPath } from '../../../src/core/identifiers.ts';
import { ipFromBytes } from '../../../src/core/ip.ts';
import { compareTable, formatDifference } from '../../../src/nft/compare.ts';
import { formatTable } from '../../../src/nft/text.ts';
import { SCOPED, TABLES } from '../../support/capture-cases.ts';
import { openNative } from '../../support/native.ts';
import { execIn, makeNetns, nftIn } from '../../support/netns.ts';

const rules = createRules(openNative());

for (const [name, table] of Object.entries(TABLES)) {
  t.test(`readTable() gives ${name} back as planned, whether we or nft made it`, async (t) => {
    const netns = makeNetns(t, 'dump');
    t.equal(await rules.readTable(netns.path, table), undefined);
    await rules.replaceTable(netns.path, table);
    t.strictSame(compareTable(table, await rules.readTable(netns.path, table)), []);
    execIn(netns, ['nft', '-f', '-'], { input: formatTable(table) });
    t.strictSame(compareTable(table, await rules.readTable(netns.path, table)), []);
  });
}

const chain = 'inet aether output';
const set = 'inet aether exclude_ports';

/** What somebody does with nft -> what the comparison says. */
const TAMPERING: readonly (readonly [title: string, commands: string, want: readonly string[]])[] = [
  [
    'an added rule',
    `add rule ${chain} tcp dport 25 drop`,
    [/^extra rule 16 of chain "output": ".*\[ drop \]"$/.source],
  ],
  [
    'an inserted rule of our kind',
    `insert rule ${chain} tcp dport 25 accept`,
    ['^extra rule 1 of chain "output": "tcp dport 25 accept"$'],
  ],
  ['a counting rule', `add rule ${chain} counter`, ['^extra rule 16 of chain "output": "\\[ counter \\]"$']],
  ['a lookup turned around', `insert rule ${chain} tcp dport != @exclude_ports accept`, ['^extra rule 1 .*lookup 0x']],
  [
    'an anonymous set',
    `add rule ${chain} tcp dport { 1, 2 } accept`,
    ['^extra rule 16 of chain "output": "tcp dport @__set0 accept"'],
  ],
  ['a random redirect', `add rule ${chain} tcp dport 5 redirect to :18001 random`, ['^extra rule 16 .*redir 0x']],
  ['an added element', `add element ${set} { 25 }`, ['^extra element \\{ 25 \\} of set "exclude_ports"$']],
  ['a deleted element', `delete element ${set} { 22 }`, ['^missing element \\{ 22 \\} of set "exclude_ports"$']],
  [
    'an element that is no prefix',
    'add element inet aether exclude4 { 10.9.0.1-10.9.0.9 }',
    ['^extra element \\{ 10.9.0.1-10.9.0.9 \\} of set "exclude4"$'],
  ],
  ['another chain', 'add chain inet aether x { type filter hook input priority 0; }', ['^extra chain "x"$']],
  ['another set', 'add set inet aether x { type mark; }', ['^extra set "x"$']],
  ['a dormant table', 'add table inet aether { flags dormant; }', ['^changed table inet aether: .*flags dormant$']],
  ['a flushed chain', `flush chain ${chain}`, Array(15).fill('^missing rule')],
];

for (const [title, commands, want] of TAMPERING) {
  t.test(`compareTable() of what readTable() gives finds ${title}`, async (t) => {
    const netns = makeNetns(t, 'dump');
    const table = TABLES['plugin-exclusions'];
    if (table === undefined) throw new Error('no table');
    await rules.replaceTable(netns.path, table);
    execIn(netns, ['nft', '-f', '-'], { input: `${commands}\n` });
    const lines = compareTable(table, await rules.readTable(netns.path, table)).map(formatDifference);
    t.equal(lines.length, want.length, lines.join('\n'));
    for (const [i, line] of lines.entries()) t.match(line, new RegExp(want[i] ?? '$^'));
  });
}

t.test('readTable() reads thousands of elements, while others change the ruleset', async (t) => {
  const netns = makeNetns(t, 'dump');
  const vip = Array.from({ length: 20_000 }, (_, i) => ipFromBytes(Uint8Array.of(10, 96, i >> 8, i & 0xff)));
  const table = planMeshTable(SCOPED, { tcp: [], vip, shim: [] });
  await rules.replaceTable(netns.path, table);
  let isDone = false;
  const meddling = (async () => {
    for (let i = 0; !isDone; i++) {
      await rules.replaceTable(netns.path, { name: `other${i % 2}`, sets: [], chains: [] });
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  })();
  const start = performance.now();
  const found = await rules.readTable(netns.path, table);
  t.comment(`20 000 elements read in ${(performance.now() - start).toFixed(1)} ms`);
  isDone = true;
  await meddling;
  t.strictSame(compareTable(table, found), []);
});

t.test('readTable() names a namespace that is gone', async (t) => {
  const [table] = Object.values(TABLES);
  if (table === undefined) throw new Error('no table');
  const error = await rules.readTable('/run/netns/ae-none' as NetnsPath, table).catch((e: unknown) => e);
  t.match(error, { code: 'E_NETNS', problem: 'missing' });
});

t.test('readTable() does not mind the tables of others', async (t) => {
  const netns = makeNetns(t, 'dump');
  const table = TABLES['plugin-scoped'];
  if (table === undefined) throw new Error('no table');
  await rules.replaceTable(netns.path, table);
  const others = `table inet aether_x { set exclude_ports { type mark; }; chain output { accept; }; }
    table ip aether { chain output { drop; }; }\n`;
  execIn(netns, ['nft', '-f', '-'], { input: others });
  t.strictSame(compareTable(table, await rules.readTable(netns.path, table)), []);
  t.match(nftIn(netns, 'list', 'tables'), 'aether_x');
});
