// What an operator's tools show of a pod's namespace, held against the plan.
import { execFileSync, spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { HOST_IP, makeNetns, removeNetns } from '../../scripts/lab/network.ts';
import { planPluginTable } from '../../src/capture/plugin-table.ts';
import { parseIp } from '../../src/core/ip.ts';
import { MESH_DNS_PORT } from '../../src/mesh/constants.ts';
import { formatTable } from '../../src/nft/text.ts';
import { ROOM_DIR } from './runtimes-room.ts';

/** Runs a command in a namespace; throws with its words when it fails. */
export function runIn(netns: string, ...command: readonly string[]): string {
  return execFileSync('nsenter', [`--net=${netns}`, '--', ...command], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

/** `nft list table inet aether`; undefined when there is none. */
export function listPluginTable(netns: string): string | undefined {
  const run = spawnSync('nsenter', [`--net=${netns}`, 'nft', 'list', 'table', 'inet', 'aether'], { encoding: 'utf8' });
  return run.status === 0 ? run.stdout : undefined;
}

/** The plugin's table in what `nft -j list ruleset` gives: chain, sets and rules, without the kernel's numbers of them. */
function listAsJson(netns: string): readonly object[] {
  const { nftables }: { readonly nftables: readonly Readonly<Record<string, NftObject>>[] } = JSON.parse(
    runIn(netns, 'nft', '-j', 'list', 'ruleset'),
  );
  const ours = nftables.filter(
    ({ table, chain, set, rule }) => (table?.name ?? (chain ?? set ?? rule)?.table) === 'aether',
  );
  return ours.map((entry) =>
    Object.fromEntries(Object.entries(entry).map(([kind, { handle: _, ...rest }]) => [kind, rest])),
  );
}

interface NftObject {
  readonly name?: string;
  readonly table?: string;
  readonly handle?: number;
}

/**
 * How `nft` shows the plan of a pod without exclusions: loaded as text into a namespace of its own and listed again.
 * Independent of the netlink code that programmed the pod.
 */
export function listPlannedTable(redirectAll: boolean): string {
  return listPlan(redirectAll, listPluginTable) ?? '';
}

function listPlan<T>(redirectAll: boolean, list: (netns: string) => T): T {
  const dns = { address: knownIp(HOST_IP), port: MESH_DNS_PORT };
  const table = planPluginTable({ redirectAll, excludePorts: [], excludeRanges: [], dns });
  const netns = makeNetns(join(ROOM_DIR, 'ns'), `plan-${redirectAll}`);
  const file = join(ROOM_DIR, 'plan.nft');
  writeFileSync(file, formatTable(table));
  try {
    runIn(netns, 'nft', '-f', file);
    return list(netns);
  } finally {
    removeNetns(netns);
  }
}

/** After an ADD: the operator's tools work in the namespace, and our table is as planned. */
export function checkRuleset(t: Test, netns: string, options: { readonly redirectAll: boolean }): void {
  t.equal(listPluginTable(netns), listPlannedTable(options.redirectAll), 'nft lists our table as planned');
  t.match(runIn(netns, 'nft', 'list', 'ruleset'), /table inet aether \{/, 'nft list ruleset shows it');
  t.strictSame(listAsJson(netns), listPlan(options.redirectAll, listAsJson), 'nft -j list ruleset shows it as planned');
  t.doesNotThrow(() => runIn(netns, 'iptables-nft-save'), 'iptables-nft-save works');
  t.doesNotThrow(() => runIn(netns, 'ip6tables-nft-save'), 'ip6tables-nft-save works');
}

function knownIp(text: string) {
  const ip = parseIp(text);
  if (ip === undefined) throw new Error(`"${text}" is no address`);
  return ip;
}
