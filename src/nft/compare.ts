// A planned table against what a kernel reports: what is missing, changed, out of order, or extra, each named in
// nft's words. Counters are not looked at.
import { type Expression, formatExpressions } from './expression.ts';
import type { KernelChain, KernelSet, KernelTable } from './kernel-table.ts';
import { lowerRule } from './lower.ts';
import type { BaseChain, NftSet, Rule, Table } from './model.ts';
import { describeRule } from './raise.ts';
import { readElements } from './read-elements.ts';
import { keyShape } from './set-elements.ts';
import { formatRule, formatSetType, listElements } from './text.ts';

export interface TableDifference {
  /** `extra`: there and not planned. `reordered`: there, but not where the plan has it. */
  readonly kind: 'missing' | 'changed' | 'reordered' | 'extra';
  /** `rule 4 of chain "output": "ip daddr 169.254.0.0/16 accept"` */
  readonly subject: string;
  /** For `changed`: what was planned and what was found. */
  readonly detail?: string;
}

/** `missing rule 4 of chain "output": "…"`: one difference on one line. */
export function formatDifference({ kind, subject, detail }: TableDifference): string {
  return detail === undefined ? `${kind} ${subject}` : `${kind} ${subject}: ${detail}`;
}

/** NFT_SET_INTERVAL (linux/netfilter/nf_tables.h). */
const SET_INTERVAL = 0x4;
/** NFT_SET_CONCAT: derived from the key by newer kernels; says nothing about us. */
const SET_CONCAT = 0x80;

export interface CompareOptions {
  /** Leave the elements of all sets out, or of those without intervals (`plain`). */
  readonly ignoreElements?: boolean | 'plain';
}

/** Empty when the kernel holds exactly the plan. `undefined`: the table is not there at all. */
export function compareTable(
  planned: Table,
  found: KernelTable | undefined,
  options: CompareOptions = {},
): readonly TableDifference[] {
  if (found === undefined) return [{ kind: 'missing', subject: `table inet ${planned.name}` }];
  const dormant = found.isDormant
    ? [changed(`table inet ${planned.name}`, { planned: 'active', found: 'flags dormant' })]
    : [];
  return [
    ...dormant,
    ...pairByName(planned.sets, found.sets, 'set').flatMap((pair) =>
      Array.isArray(pair) ? compareSet(pair[0], pair[1], options) : [pair],
    ),
    ...pairByName(planned.chains, found.chains, 'chain').flatMap((pair) =>
      Array.isArray(pair) ? compareChain(pair[0], pair[1]) : [pair],
    ),
  ];
}

interface Named {
  readonly name: string;
}

function pairByName<P extends Named, F extends Named>(
  planned: readonly P[],
  found: readonly F[],
  what: string,
): readonly ([P, F] | TableDifference)[] {
  const names = new Set(planned.map(({ name }) => name));
  const byName = new Map(found.map((item) => [item.name, item]));
  const pairs = planned.map((item): [P, F] | TableDifference => {
    const other = byName.get(item.name);
    return other === undefined ? { kind: 'missing', subject: `${what} "${item.name}"` } : [item, other];
  });
  const extra = found.filter(({ name }) => !names.has(name));
  return [...pairs, ...extra.map(({ name }): TableDifference => ({ kind: 'extra', subject: `${what} "${name}"` }))];
}

function changed(subject: string, values: { readonly planned: string; readonly found: string }): TableDifference {
  return { kind: 'changed', subject, detail: `planned ${values.planned}, found ${values.found}` };
}

function compareSet(planned: NftSet, found: KernelSet, options: CompareOptions): readonly TableDifference[] {
  const shape = keyShape(planned);
  const subject = `set "${planned.name}"`;
  const flags = shape.isInterval ? SET_INTERVAL : 0;
  if (found.keyType !== shape.keyType || found.keyLength !== shape.keyLength) {
    const type = `key type ${found.keyType} of ${found.keyLength} bytes`;
    return [changed(subject, { planned: `type ${formatSetType(planned)}`, found: type })];
  }
  if ((found.flags & ~SET_CONCAT) !== flags) {
    return [
      changed(subject, { planned: `flags 0x${flags.toString(16)}`, found: `flags 0x${found.flags.toString(16)}` }),
    ];
  }
  if (options.ignoreElements === true || (options.ignoreElements === 'plain' && !shape.isInterval)) return [];
  const wanted = listElements(planned);
  const there = readElements(found.elements, planned);
  const difference = (kind: 'missing' | 'extra', from: readonly string[], other: readonly string[]) => {
    const others = new Set(other);
    const texts = from.filter((text) => !others.has(text));
    return texts.map((text): TableDifference => ({ kind, subject: `element { ${text} } of ${subject}` }));
  };
  return [...difference('missing', wanted, there), ...difference('extra', there, wanted)];
}

function compareChain(planned: BaseChain, found: KernelChain): readonly TableDifference[] {
  const head = (type: string, hook: string, priority: number, policy: string) =>
    `type ${type} hook ${hook} priority ${priority}; policy ${policy}`;
  const wanted = head('nat', 'output', planned.priority, 'accept');
  const { base } = found;
  const there = base === undefined ? 'no hook' : head(base.type, base.hook, base.priority, base.policy);
  const attributes =
    wanted === there ? [] : [changed(`chain "${planned.name}"`, { planned: `"${wanted}"`, found: `"${there}"` })];
  return [...attributes, ...compareRules(planned, found)];
}

/** A rule by what the kernel runs; `text` is for people. */
interface Line {
  readonly index: number;
  readonly key: string;
  readonly text: string;
}

function compareRules(planned: BaseChain, found: KernelChain): readonly TableDifference[] {
  if (isSameRules(planned, found)) return [];
  const wanted = planned.rules.map((rule, index) => plannedLine(rule, index));
  const there = found.rules.map((rule, index) => foundLine(rule, index));
  const missing = subtract(wanted, there);
  const extra = subtract(there, wanted);
  const moved = listMoved(without(wanted, missing), without(there, extra));
  const subject = (line: Line) => `rule ${line.index + 1} of chain "${planned.name}"`;
  const differences: TableDifference[] = [];
  for (const line of missing) {
    // Another rule in its very place: that one was changed.
    const instead = extra.find(({ index }) => index === line.index);
    if (instead !== undefined) extra.splice(extra.indexOf(instead), 1);
    differences.push(
      instead === undefined
        ? { kind: 'missing', subject: `${subject(line)}: "${line.text}"` }
        : changed(subject(line), { planned: `"${line.text}"`, found: `"${instead.text}"` }),
    );
  }
  const plain =
    (kind: 'reordered' | 'extra') =>
    (line: Line): TableDifference => ({
      kind,
      subject: `${subject(line)}: "${line.text}"`,
    });
  return [...differences, ...moved.map(plain('reordered')), ...extra.map(plain('extra'))];
}

// One plan is held against many kernels, and mostly nothing differs.
const knownKeys = new WeakMap<BaseChain, readonly string[]>();

function isSameRules(planned: BaseChain, found: KernelChain): boolean {
  const keys = knownKeys.get(planned) ?? planned.rules.map((rule) => formatExpressions(lowerRule(rule)));
  knownKeys.set(planned, keys);
  return keys.length === found.rules.length && found.rules.every((rule, index) => keyOf(rule) === keys[index]);
}

function plannedLine(rule: Rule, index: number): Line {
  return { index, key: formatExpressions(lowerRule(rule)), text: formatRule(rule) };
}

function keyOf(rule: readonly Expression[]): string {
  return formatExpressions(withoutCounters(rule));
}

function withoutCounters(rule: readonly Expression[]): readonly Expression[] {
  return rule.filter((expression) => !(expression.kind === 'foreign' && expression.name === 'counter'));
}

function foundLine(rule: readonly Expression[], index: number): Line {
  const expressions = withoutCounters(rule);
  return {
    index,
    key: formatExpressions(expressions),
    text: describeRule(expressions.length === 0 ? rule : expressions),
  };
}

/** The lines of `from` that have no partner in `other`; each partner counts once. */
function subtract(from: readonly Line[], other: readonly Line[]): Line[] {
  const left = new Map<string, number>();
  for (const { key } of other) left.set(key, (left.get(key) ?? 0) + 1);
  return from.filter(({ key }) => {
    const count = left.get(key) ?? 0;
    if (count > 0) left.set(key, count - 1);
    return count === 0;
  });
}

function without(lines: readonly Line[], dropped: readonly Line[]): readonly Line[] {
  return lines.filter((line) => !dropped.includes(line));
}

/** Both hold the same lines: those of `wanted` outside a longest common order. */
function listMoved(wanted: readonly Line[], there: readonly Line[]): readonly Line[] {
  const positions = new Map<string, number[]>();
  for (const [position, { key }] of there.entries()) positions.set(key, [...(positions.get(key) ?? []), position]);
  const sequence = wanted.map((line) => ({ line, position: positions.get(line.key)?.shift() ?? -1 }));
  // Longest increasing subsequence, by its length up to each element; tables have some twenty rules.
  const lengths: number[] = [];
  for (const [i, { position }] of sequence.entries()) {
    const before = sequence.slice(0, i).map((other, j) => (other.position < position ? (lengths[j] ?? 0) : 0));
    lengths.push(1 + Math.max(0, ...before));
  }
  let wantedLength = Math.max(0, ...lengths);
  let limit = Number.POSITIVE_INFINITY;
  const kept = new Set<Line>();
  for (let i = sequence.length - 1; i >= 0; i--) {
    const entry = sequence[i];
    if (entry === undefined || lengths[i] !== wantedLength || entry.position >= limit) continue;
    kept.add(entry.line);
    limit = entry.position;
    wantedLength--;
  }
  return wanted.filter((line) => !kept.has(line));
}
