// A table as the kernel has it, as nft text: ours in the spelling of text.ts, whatever else was put into it as a comment,
// so that nothing is left out and nft still reads the whole.
import { type Expression, formatExpressions } from './expression.ts';
import type { KernelChain, KernelSet, KernelTable } from './kernel-table.ts';
import type { NftSet, Table } from './model.ts';
import { raiseRule } from './raise.ts';
import { readElements } from './read-elements.ts';
import { formatRule, formatSetType } from './text.ts';

/** `table inet aether { … }`. `like`: the table's plan, for what the keys of its sets mean; its elements do not matter. */
export function formatKernelTable(table: KernelTable, like: Table): string {
  const sets = table.sets.map((set) =>
    formatSet(
      set,
      like.sets.find(({ name }) => name === set.name),
    ),
  );
  const flags = table.isDormant ? ['\tflags dormant\n'] : [];
  return `table inet ${table.name} {\n${[...flags, ...sets, ...table.chains.map(formatChain)].join('\n')}}\n`;
}

function formatSet(set: KernelSet, like: NftSet | undefined): string {
  if (like === undefined) {
    return `\t# set ${set.name}: none of ours, key type ${set.keyType} of ${set.keyLength} bytes\n`;
  }
  const isInterval = like.kind === 'ports' || like.kind === 'ranges';
  const elements = readElements(set.elements, like);
  const list = elements.length === 0 ? '' : `\t\telements = { ${elements.join(', ')} }\n`;
  return `\tset ${set.name} {\n\t\ttype ${formatSetType(like)}\n${isInterval ? '\t\tflags interval\n' : ''}${list}\t}\n`;
}

function formatChain({ name, base, rules }: KernelChain): string {
  const head =
    base === undefined
      ? ''
      : `\t\ttype ${base.type} hook ${base.hook} priority ${base.priority}; policy ${base.policy};\n`;
  return `\tchain ${name} {\n${head}${rules.map((rule) => `\t\t${formatLine(rule)}\n`).join('')}\t}\n`;
}

function formatLine(expressions: readonly Expression[]): string {
  const rule = raiseRule(expressions);
  return rule === undefined ? `# none of ours: ${formatExpressions(expressions)}` : formatRule(rule);
}
