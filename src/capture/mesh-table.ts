// The agent's table: dynamic, one priority before the plugin's. Its sets say which addresses and ports are the
// mesh's TCP; what it does not claim goes on to the plugin's table. architecture §4 has the table of packets.
import { assertNever } from '../core/assert-never.ts';
import type { IpAddress, IpRange } from '../core/ip.ts';
import { findPlace } from '../core/merge-sorted.ts';
import {
  BYPASS_MARK32,
  CAPTURE_SHIM_PORT,
  CAPTURE_TCP_PORT,
  HTTP_MESH_PORT,
  TCP_MESH_PORT,
} from '../mesh/constants.ts';
import { type MeshSets, withoutShared } from '../mesh/mesh-sets.ts';
import type { ElementChange, Match, NftSet, Rule, Table } from '../nft/model.ts';
import { listElements } from '../nft/text.ts';
import { PLUGIN_PRIORITY, PLUGIN_TABLE } from './plugin-table.ts';
import type { CapturePolicy } from './policy.ts';
import {
  ACCEPT_CAPTURE_PORTS,
  ACCEPT_LOOPBACK,
  ACCEPT_OWN_MARK,
  acceptExcluded,
  acceptIf,
  CHAIN_OUTPUT,
  planExclusionSets,
} from './shared-rules.ts';

export const MESH_TABLE = 'aether_mesh';
/** What a pod's namespace may have of ours. */
export const POD_TABLES = [PLUGIN_TABLE, MESH_TABLE] as const;
const MESH_PRIORITY = PLUGIN_PRIORITY - 1;

type Family = 4 | 6;
const FAMILIES: readonly Family[] = [4, 6];

/**
 * `unanswered`: ranges of service addresses that nobody answers for but the mesh (the embedded registry's own). What is
 * not captured of them is reset in the pod: an ICMP error from the node comes while the dialler's socket is locked,
 * and IPv6 then notices it only at the second SYN, a second later.
 */
export interface MeshTableOptions {
  readonly unanswered?: readonly IpRange[];
}

/** The table of one pod: its policy's shape and exclusions, the mesh's elements. */
export function planMeshTable(policy: CapturePolicy, sets: MeshSets, options: MeshTableOptions = {}): Table {
  const unanswered = options.unanswered ?? [];
  // Every ADD pays for each rule.
  const exclusions = planExclusionSets(policy).filter(({ elements }) => elements.length > 0);
  const rules = [
    ...unanswered.map((range) => resetRange(range, [{ kind: 'mark', mark32: BYPASS_MARK32 }])),
    ...ACCEPT_OWN_MARK,
    ...ACCEPT_LOOPBACK,
    ...acceptExcluded(exclusions),
    ...ACCEPT_CAPTURE_PORTS,
    ...perFamily((family) => planTcp(family, policy)),
    ...perFamily(planReset),
    ...perFamily((family) => planShim(family, policy)),
    ...(policy.redirectAll || unanswered.length === 0 ? [] : [acceptIf(onPort(HTTP_MESH_PORT))]),
    ...(policy.redirectAll ? [] : unanswered.map((range) => resetRange(range, []))),
  ];
  return {
    name: MESH_TABLE,
    sets: [...planMeshSets(sets), ...exclusions],
    chains: [{ name: CHAIN_OUTPUT, priority: MESH_PRIORITY, rules }],
  };
}

/**
 * What must change in every pod's table to come from one state to the other; undefined when nothing. The same for
 * all pods of the node, whatever their policies.
 */
export function planMeshChange(before: MeshSets, after: MeshSets): ElementChange | undefined {
  const old = planMeshSets(withoutShared(before, after));
  const fresh = planMeshSets(withoutShared(after, before));
  const add = subtractAll(fresh, old);
  const remove = subtractAll(old, fresh);
  return add.length === 0 && remove.length === 0 ? undefined : { table: MESH_TABLE, add, remove };
}

/** The sets without the elements of these names: `mesh_tcp4 10.254.0.1 . 9000`. */
export function withoutMeshElements(sets: MeshSets, names: ReadonlySet<string>): MeshSets {
  const keeps = (set: string, { family, text }: IpAddress, rest = ''): boolean =>
    !names.has(`mesh_${set}${family} ${text}${rest}`);
  return {
    tcp: sets.tcp.filter(({ address, port }) => keeps('tcp', address, ` . ${port}`)),
    vip: sets.vip.filter((address) => keeps('vip', address)),
    shim: sets.shim.filter((address) => keeps('shim', address)),
  };
}

/** The six sets, in their order. */
function planMeshSets(sets: MeshSets): readonly NftSet[] {
  const tcp = splitFamilies(sets.tcp, ({ address }) => address.family);
  const vip = splitFamilies(sets.vip, ({ family }) => family);
  const shim = splitFamilies(sets.shim, ({ family }) => family);
  return [
    ...FAMILIES.map((family): NftSet => {
      return { kind: 'address-ports', name: `mesh_tcp${family}`, family, elements: tcp[family] };
    }),
    ...Object.entries({ vip, shim }).flatMap(([name, lists]) =>
      FAMILIES.map((family): NftSet => {
        return { kind: 'addresses', name: `mesh_${name}${family}`, family, elements: lists[family] };
      }),
    ),
  ];
}

// They are sorted, IPv4 first: of tens of thousands none needs to be looked at.
function splitFamilies<T>(items: readonly T[], familyOf: (item: T) => Family): Readonly<Record<Family, readonly T[]>> {
  const place = findPlace(items, (item) => familyOf(item) === 4);
  return { 4: items.slice(0, place), 6: items.slice(place) };
}

const perFamily = (plan: (family: Family) => Rule): readonly Rule[] => FAMILIES.map(plan);

// tcp dport 18082 ip daddr . tcp dport @mesh_tcp4 redirect to :18002 (redirect-all: without the first match)
function planTcp(family: Family, policy: CapturePolicy): Rule {
  const member: Match = { kind: 'daddr-dport-in', family, set: `mesh_tcp${family}` };
  return {
    matches: policy.redirectAll ? [member] : [onPort(TCP_MESH_PORT), member],
    verdict: { kind: 'redirect', port: CAPTURE_TCP_PORT },
  };
}

// tcp dport 18082 ip daddr @mesh_vip4 reject with tcp reset: nobody serves TCP there, and the dialler learns it at once
function planReset(family: Family): Rule {
  return {
    matches: [onPort(TCP_MESH_PORT), { kind: 'daddr-in', family, set: `mesh_vip${family}` }],
    verdict: { kind: 'reset' },
  };
}

// tcp dport 18081 ip daddr @mesh_shim4 redirect to :18003 (redirect-all: meta l4proto tcp)
function planShim(family: Family, policy: CapturePolicy): Rule {
  return {
    matches: [
      policy.redirectAll ? TCP : onPort(HTTP_MESH_PORT),
      { kind: 'daddr-in', family, set: `mesh_shim${family}` },
    ],
    verdict: { kind: 'redirect', port: CAPTURE_SHIM_PORT },
  };
}

// ip daddr 10.254.0.0/16 meta l4proto tcp reject with tcp reset
function resetRange(range: IpRange, before: readonly Match[]): Rule {
  const matches: readonly Match[] = [...before, { kind: 'daddr', range }, { kind: 'l4proto', protocol: 'tcp' }];
  return { matches, verdict: { kind: 'reset' } };
}

const TCP: Match = { kind: 'l4proto', protocol: 'tcp' };

function onPort(port: number): Match {
  return { kind: 'dport', protocol: 'tcp', port };
}

// Sets pair by position: planMeshSets always gives the same six.
function subtractAll(from: readonly NftSet[], what: readonly NftSet[]): readonly NftSet[] {
  return from.flatMap((set, index) => {
    const other = what[index];
    const gone = new Set(other === undefined ? [] : listElements(other));
    const texts = listElements(set);
    const rest = keepElements(set, (i) => !gone.has(texts[i] ?? ''));
    return rest.elements.length === 0 ? [] : [rest];
  });
}

function keepElements(set: NftSet, keep: (index: number) => boolean): NftSet {
  switch (set.kind) {
    case 'ports':
      return { ...set, elements: set.elements.filter((_, i) => keep(i)) };
    case 'ranges':
      return { ...set, elements: set.elements.filter((_, i) => keep(i)) };
    case 'addresses':
      return { ...set, elements: set.elements.filter((_, i) => keep(i)) };
    case 'address-ports':
      return { ...set, elements: set.elements.filter((_, i) => keep(i)) };
    default:
      return assertNever(set);
  }
}
