// Reading tables back from a real kernel, and finding what somebody has done to them with nft.
import { spawn } from 'node:child_process';
import t from 'tap';
import { dumpTable } from '../../../src/adapters/kernel/dump-table.ts';
import { createRules } from '../../../src/adapters/kernel/rules.ts';
import { planMeshTable } from '../../../src/capture/mesh-table.ts';
import { planPluginTable } from '../../../src/capture/plugin-table.ts';
import type { NetnsPath } from '../../../src/core/identifiers.ts';
import { ipFromBytes } from '../../../src/core/ip.ts';
import { compareTable, formatDifference } from '../../../src/nft/compare.ts';
import { formatTable } from '../../../src/nft/text.ts';
import { EXCLUDING, SCOPED, TABLES } from '../../support/capture-cases.ts';
import { openNative } from '../../support/native.ts';
import { execIn, makeNetns, nftIn, type TestNetns } from '../../support/netns.ts';

const native = openNative();
const rules = createRules(native);

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

const excluding = planPluginTable(EXCLUDING);
const chain = 'inet aether output';
const set = 'inet aether exclude_ports';

/** nft commands; `#2` in them is the handle of the chain's second rule. */
type Tampering = readonly [title: string, commands: string, want: readonly string[]];

/** What somebody does with nft -> what the comparison says. */
const TAMPERING: readonly Tampering[] = [
  ['the table gone', 'delete table inet aether', ['^missing table inet aether$']],
  ['a deleted rule', `delete rule ${chain} handle #2`, ['^missing rule 2 .*: "ip daddr 127.0.0.0/8 accept"$']],
  [
    'an added rule',
    `add rule ${chain} tcp dport 25 drop`,
    [/^extra rule 16 of chain "output": ".*\[ drop \]"$/.source],
  ],
  [
    'an accept before ours',
    `insert rule ${chain} tcp dport 25 accept`,
    ['^extra rule 1 of chain "output": "tcp dport 25 accept"$'],
  ],
  ['an accept for all', `insert rule ${chain} accept`, ['^extra rule 1 of chain "output": "accept"$']],
  ['a counting rule', `add rule ${chain} counter`, ['^extra rule 16 of chain "output": "\\[ counter \\]"$']],
  ['a lookup turned around', `insert rule ${chain} tcp dport != @exclude_ports accept`, ['^extra rule 1 .*lookup 0x']],
  [
    'an anonymous set',
    `add rule ${chain} tcp dport { 1, 2 } accept`,
    ['^extra rule 16 of chain "output": "tcp dport @__set0 accept"'],
  ],
  ['a random redirect', `add rule ${chain} tcp dport 5 redirect to :18001 random`, ['^extra rule 16 .*redir 0x']],
  [
    'another capture port',
    `replace rule ${chain} handle #12 tcp dport 18081 redirect to :18009`,
    ['^changed rule 12 .*: planned "tcp dport 18081 redirect to :18001", found "tcp dport 18081 redirect to :18009"$'],
  ],
  [
    'another dialled port',
    `replace rule ${chain} handle #13 tcp dport 18083 redirect to :18001`,
    ['^changed rule 13 .*: planned "tcp dport 18082 redirect to :18001", found "tcp dport 18083 redirect to :18001"$'],
  ],
  [
    'rules in another order',
    `delete rule ${chain} handle #1\nadd rule ${chain} handle #3 meta mark 0xae7e accept`,
    ['^reordered rule 1 of chain "output": "meta mark 0x0000ae7e accept"$'],
  ],
  ['a renamed chain', `rename chain ${chain} input`, ['^missing chain "output"$', '^extra chain "input"$']],
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

function withHandles(netns: TestNetns, commands: string): string {
  const handles = [...nftIn(netns, '-a', 'list', 'chain', ...chain.split(' ')).matchAll(/# handle (\d+)$/gm)];
  return commands.replace(/#(\d+)/g, (_, number: string) => handles[Number(number)]?.[1] ?? 'none');
}

for (const [title, commands, want] of TAMPERING) {
  t.test(`K065 compareTable() of what readTable() gives finds ${title}`, async (t) => {
    const netns = makeNetns(t, 'dump');
    await rules.replaceTable(netns.path, excluding);
    execIn(netns, ['nft', '-f', '-'], { input: `${withHandles(netns, commands)}\n` });
    const lines = compareTable(excluding, await rules.readTable(netns.path, excluding)).map(formatDifference);
    t.equal(lines.length, want.length, lines.join('\n'));
    for (const [i, line] of lines.entries()) t.match(line, new RegExp(want[i] ?? '$^'));
  });
}

/** What stands there instead, as text: what nft has no command for. */
const REPLACED: readonly (readonly [title: string, change: (text: string) => string, want: readonly string[]])[] = [
  [
    'another priority',
    (text) => text.replace('priority -100', 'priority 0'),
    ['^changed chain "output": planned ".*priority -100; policy accept", found ".*priority 0; policy accept"$'],
  ],
  [
    'another hook',
    (text) => text.replace('hook output', 'hook prerouting'),
    ['^changed chain "output": planned ".*hook output.*", found ".*hook hook 0.*"$'],
  ],
  ['a renamed table', (text) => text.replaceAll('inet aether', 'inet aether2'), ['^missing table inet aether$']],
  [
    'a renamed set',
    (text) => text.replaceAll('exclude4', 'exempt4'),
    [
      '^missing set "exclude4"$',
      '^extra set "exempt4"$',
      '^changed rule 9 .*: planned "ip daddr @exclude4 accept", found "ip daddr @exempt4 accept"$',
    ],
  ],
  ['counters in our rules', (text) => text.replaceAll(/ (accept$|redirect)/gm, ' counter packets 7 bytes 420 $1'), []],
];

for (const [title, change, want] of REPLACED) {
  t.test(`K065 compareTable() of what readTable() gives: ${title}`, async (t) => {
    const netns = makeNetns(t, 'dump');
    execIn(netns, ['nft', '-f', '-'], { input: change(formatTable(excluding)) });
    const lines = compareTable(excluding, await rules.readTable(netns.path, excluding)).map(formatDifference);
    t.equal(lines.length, want.length, lines.join('\n'));
    for (const [i, line] of lines.entries()) t.match(line, new RegExp(want[i] ?? '$^'));
  });
}

for (const [title, loop] of [
  ['somebody’s table', 'add table inet x; delete table inet x; add table inet x; add chain inet x y'],
  ['our own table', formatTable(excluding)],
] as const) {
  t.test(`K087 readTable() never gives a false difference while ${title} is rewritten all the time`, async (t) => {
    const netns = makeNetns(t, 'dump');
    await rules.replaceTable(netns.path, excluding);
    const script = `while nft -f - <<'END'\n${loop}\nEND\ndo echo; done`;
    const command = ['netns', 'exec', netns.name, 'bash', '-c', script];
    const writer = spawn('ip', command, { stdio: ['ignore', 'pipe', 'inherit'] });
    t.teardown(() => writer.kill('SIGKILL'));
    let changes = 0;
    writer.stdout.on('data', (chunk: Buffer) => {
      changes += chunk.length;
    });
    const lines: string[] = [];
    for (let i = 0; i < 200 || changes <= 10; i++) {
      lines.push(...compareTable(excluding, await rules.readTable(netns.path, excluding)).map(formatDifference));
    }
    t.strictSame(lines, []);
    t.comment(`${changes} transactions meanwhile`);
  });
}

t.test('K087 readTable() never gives a false difference under a writer without a pause', async (t) => {
  const netns = makeNetns(t, 'dump');
  await rules.replaceTable(netns.path, excluding);
  let changes = 0;
  let isDone = false;
  const writing = (async () => {
    for (; !isDone; changes++) await rules.replaceTable(netns.path, excluding);
  })();
  const lines: string[] = [];
  const settled = { table: excluding.name, sets: excluding.sets.map(({ name }) => name), isSettled: true };
  for (let i = 0; i < 200; i++) {
    lines.push(...compareTable(excluding, await rules.readTable(netns.path, excluding)).map(formatDifference));
    // What is believed where something seems to be missing.
    lines.push(...compareTable(excluding, await dumpTable(native, netns.path, settled)).map(formatDifference));
  }
  isDone = true;
  await writing;
  t.comment(`${changes} transactions meanwhile`);
  t.strictSame(lines, []);
});

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

t.test('readTable() leaves elements out that follow the services, and nothing else', async (t) => {
  const netns = makeNetns(t, 'dump');
  const table = TABLES['mesh-exclusions'];
  if (table === undefined) throw new Error('no table');
  await rules.replaceTable(netns.path, table);
  const options = { ignoreElements: 'plain' } as const;
  const found = await rules.readTable(netns.path, table, options);
  t.strictSame(compareTable(table, found, options), []);
  const counts = new Map(found?.sets.map(({ name, elements }) => [name, elements.length]));
  t.equal(counts.get('mesh_tcp4'), 0);
  t.not(counts.get('exclude_ports'), 0);
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
