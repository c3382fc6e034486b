// Our tables beside what else works on the same machine and in the same namespace, and at scale.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import t from 'tap';
import { createRules } from '../../../src/adapters/kernel/rules.ts';
import { planMeshTable } from '../../../src/capture/mesh-table.ts';
import { planPluginTable } from '../../../src/capture/plugin-table.ts';
import type { CapturePolicy } from '../../../src/capture/policy.ts';
import type { NetnsPath } from '../../../src/core/identifiers.ts';
import { compareTable, formatDifference } from '../../../src/nft/compare.ts';
import type { Table } from '../../../src/nft/model.ts';
import { formatTable } from '../../../src/nft/text.ts';
import { cidr, EXCLUDING, MESH, REDIRECT_ALL, SCOPED } from '../../support/capture-cases.ts';
import { openNative } from '../../support/native.ts';
import { execIn, listOwnTables, makeManyNetns, makeNetns, nftIn, type TestNetns } from '../../support/netns.ts';

const rules = createRules(openNative());
const excluding = planPluginTable(EXCLUDING);

async function check({ path }: Pick<TestNetns, 'path'>, table: Table): Promise<readonly string[]> {
  return compareTable(table, await rules.readTable(path, table)).map(formatDifference);
}

async function elapsedMs(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

t.test(
  'K078 all that Rules do is refused in the host’s namespace by any path, and no table of ours comes or goes there',
  async (t) => {
    const before = listOwnTables();
    const own = readlinkSync('/proc/self/ns/net');
    const mounted = join(mkdtempSync('/tmp/ae-co-'), 'host');
    writeFileSync(mounted, '');
    execFileSync('mount', ['--bind', '/proc/self/ns/net', mounted]);
    t.teardown(() => {
      execFileSync('umount', [mounted]);
      rmSync(dirname(mounted), { recursive: true });
    });
    for (const path of ['/proc/self/ns/net', `/proc/${process.pid}/task/${process.pid}/ns/net`, mounted]) {
      const netns = path as NetnsPath;
      const wanted = { code: 'E_NETNS', problem: 'forbidden', path };
      t.match(await rules.replaceTable(netns, excluding, { settleFlows: true }).catch((e: unknown) => e), wanted);
      t.match(await rules.destroyTable(netns, 'aether').catch((e: unknown) => e), wanted);
      t.match(await rules.flushCaptureFlows(netns, undefined).catch((e: unknown) => e), wanted);
      t.match(await rules.readTable(netns, excluding).catch((e: unknown) => e), wanted);
      const [result] = await rules.changeElements([netns], { table: 'aether', add: excluding.sets, remove: [] });
      t.match(result?.error, wanted);
    }
    t.strictSame(listOwnTables(), before);
    t.equal(readlinkSync('/proc/self/ns/net'), own);
  },
);

t.test(
  'K082 K092 replaceTable() in 50 namespaces at the same instant, with no nft and no DNS to be found',
  async (t) => {
    const many = makeManyNetns(t, 'co', 50);
    const { PATH } = process.env;
    t.teardown(() => {
      process.env['PATH'] = PATH;
    });
    process.env['PATH'] = '/nonexistent';
    const tables = many.map((_, i) => planPluginTable(i % 2 === 0 ? SCOPED : EXCLUDING));
    const ms = await elapsedMs(() =>
      Promise.all(many.map(({ path }, i) => rules.replaceTable(path, tables[i] ?? excluding))),
    );
    process.env['PATH'] = PATH;
    for (const [i, netns] of many.entries()) t.strictSame(await check(netns, tables[i] ?? excluding), []);
    t.comment(`50 at once: ${ms.toFixed(1)} ms`);
  },
);

/** What an earlier version or somebody else may have left under our name. */
const OTHER_SHAPES: readonly (readonly [title: string, text: string])[] = [
  [
    'maps, jumps and a verdict map',
    `table inet aether {
      map to { type inet_service : inet_service; elements = { 80 : 8080 }; }
      chain sub { meta l4proto tcp redirect to :tcp dport map @to; }
      chain output { type nat hook output priority -100; tcp dport vmap { 80 : jump sub, 81 : accept }; }
      chain prerouting { type nat hook prerouting priority -100; meta l4proto tcp redirect to :15006; }
    }`,
  ],
  [
    'our names with other types',
    `table inet aether {
      set exclude_ports { type ipv4_addr; flags timeout; }
      map exclude4 { type ipv4_addr : verdict; }
      chain output { type filter hook output priority 0; policy drop; ip daddr vmap @exclude4; }
    }`,
  ],
  ['counters, quotas and a dormant flag', 'table inet aether { flags dormant; counter c {}; quota q { 1 mbytes }; }'],
];

for (const [title, text] of OTHER_SHAPES) {
  for (const legacy of [false, true]) {
    t.test(
      `K084 replaceTable() over a table of another shape: ${title}${legacy ? ', before Linux 6.3' : ''}`,
      async (t) => {
        const netns = makeNetns(t, 'co');
        execIn(netns, ['nft', '-f', '-'], { input: `${text}\n` });
        const own = createRules(openNative(), { legacy });
        await own.replaceTable(netns.path, excluding);
        t.strictSame(await check(netns, excluding), []);
        execIn(netns, ['nft', '-f', '-'], { input: `delete table inet aether\n${text}\n` });
        await own.destroyTable(netns.path, 'aether');
        t.equal(nftIn(netns, 'list', 'ruleset'), '');
      },
    );
  }
}

t.test(
  'K090 what iptables-nft does in the namespace leaves our tables alone; a flushed ruleset is found',
  async (t) => {
    const netns = makeNetns(t, 'co');
    const mesh = planMeshTable(EXCLUDING, MESH);
    await rules.replaceTable(netns.path, excluding);
    await rules.replaceTable(netns.path, mesh);
    const restore = '*nat\n:KUBE-SERVICES - [0:0]\n-A OUTPUT -j KUBE-SERVICES\nCOMMIT\n';
    const steps: readonly (readonly [command: readonly string[], input?: string])[] = [
      [['iptables-nft', '-t', 'nat', '-S']],
      [['iptables-nft', '-t', 'nat', '-A', 'OUTPUT', '-p', 'tcp', '-j', 'REDIRECT', '--to-ports', '15001']],
      [['iptables-nft', '-t', 'nat', '-F']],
      [['ip6tables-nft', '-t', 'nat', '-F']],
      [['iptables-nft-restore', '--noflush'], restore],
      [['iptables-nft-restore'], restore],
      [['iptables-nft-save']],
    ];
    for (const [command, input] of steps) {
      execIn(netns, command, input === undefined ? {} : { input });
      t.strictSame(await check(netns, excluding), [], command.join(' '));
      t.strictSame(await check(netns, mesh), [], command.join(' '));
    }
    await rules.replaceTable(netns.path, excluding);
    t.match(execIn(netns, ['iptables-nft', '-t', 'nat', '-S']), 'KUBE-SERVICES', 'nor do we touch theirs');
    nftIn(netns, 'flush', 'ruleset');
    t.strictSame(await check(netns, excluding), ['missing table inet aether']);
    t.strictSame(await check(netns, mesh), ['missing table inet aether_mesh']);
  },
);

t.test('K091 replaceTable() does not mind a held xtables lock', async (t) => {
  const netns = makeNetns(t, 'co');
  mkdirSync('/run', { recursive: true });
  const holder = spawn('flock', ['/run/xtables.lock', 'sh', '-c', 'echo held; exec sleep 30'], {
    stdio: ['ignore', 'pipe', 'ignore'],
    detached: true,
  });
  t.teardown(() => holder.pid !== undefined && process.kill(-holder.pid, 'SIGKILL'));
  await once(holder.stdout, 'data');
  const ms = await elapsedMs(() => rules.replaceTable(netns.path, excluding));
  t.strictSame(await check(netns, excluding), []);
  t.ok(ms < 15_000, `${ms.toFixed(1)} ms of the 30 s for which it is held`);
});

/** 10 000 ranges of ports, 20 000 of addresses, no two of them neighbours. */
function planMany(): CapturePolicy {
  const indices = Array.from({ length: 10_000 }, (_, i) => i);
  return {
    ...REDIRECT_ALL,
    excludePorts: indices.map((i) => ({ first: 6 * i + 1, last: 6 * i + 3 })),
    excludeRanges: [
      ...indices.map((i) => cidr(`10.${i >> 8}.${i & 0xff}.128/25`)),
      ...indices.map((i) => cidr(`fd00:${i.toString(16)}:0:8000::/49`)),
    ],
  };
}

for (const legacy of [false, true]) {
  t.test(
    `replaceTable() takes 30 000 exclusions in one batch, twice${legacy ? ', before Linux 6.3' : ''}`,
    async (t) => {
      const netns = makeNetns(t, 'co');
      const many = planMany();
      const own = createRules(openNative(), { legacy });
      const times: string[] = [];
      for (const table of [planPluginTable(many), planPluginTable(many), planMeshTable(many, MESH)]) {
        times.push((await elapsedMs(() => own.replaceTable(netns.path, table))).toFixed(0));
        t.strictSame(await check(netns, table), []);
      }
      const table = planPluginTable(many);
      // One more after so many: nothing of the earlier answers is in its way.
      await own.replaceTable(netns.path, excluding);
      t.strictSame(await check(netns, excluding), []);
      await own.changeElements([netns.path], { table: 'aether', add: [], remove: excluding.sets });
      const [added] = await own.changeElements([netns.path], { table: 'aether', add: table.sets, remove: [] });
      t.equal(added?.error, undefined);
      t.strictSame(await check(netns, table), []);
      t.comment(`plugin, again, mesh: ${times.join(', ')} ms`);
    },
  );
}

t.test('formatTable() of 30 000 exclusions is what nft reads the same way', async (t) => {
  const netns = makeNetns(t, 'co');
  const table = planPluginTable(planMany());
  execIn(netns, ['nft', '-f', '-'], { input: formatTable(table) });
  t.strictSame(await check(netns, table), []);
});
