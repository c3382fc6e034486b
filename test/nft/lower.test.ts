// Our lowering against nft's own: both descriptions of each rule must be the same, but for how bytes are grouped.
import { execFileSync } from 'node:child_process';
import t from 'tap';
import { type Expression, formatExpressions } from '../../src/nft/expression.ts';
import { lowerTable } from '../../src/nft/lower.ts';
import { formatTable } from '../../src/nft/text.ts';
import { TABLES } from '../support/capture-cases.ts';

/** The expression lists that nft prints for a script, one string a rule. */
function debugNetlink(script: string): readonly string[] {
  const output = execFileSync('nft', ['--debug=netlink', '-c', '-f', '-'], { input: script, encoding: 'utf8' });
  return output
    .split('\n\n')
    .map((block) => block.split('\n').filter((line) => line.startsWith('  [')))
    .filter((lines) => lines.length > 0)
    .map((lines) => lines.map(normalise).join(' '));
}

// nft groups bytes into host-order words, prints the xor that is always 0, and flags that the kernel derives itself.
function normalise(line: string): string {
  return line
    .trim()
    .replace(/ \^ (0x0{8} ?)+ /, ' ')
    .replace(/ flags 0x2 \]/, ' ]')
    .replace(/((?: 0x[0-9a-f]{8})+)/g, (words) => ` 0x${words.trim().split(' ').map(swap).join('')}`);
}

function swap(word: string): string {
  return (word.slice(2).match(/../g) ?? []).reverse().join('');
}

// As nft prints a value: whole words, padded with zeros.
function pad(expression: Expression): Expression {
  if (expression.kind !== 'compare' && expression.kind !== 'immediate') return expression;
  const value = new Uint8Array(Math.ceil(expression.value.length / 4) * 4);
  value.set(expression.value);
  return { ...expression, value };
}

for (const [name, table] of Object.entries(TABLES)) {
  t.test(`lowerTable() gives ${name} the expressions that nft gives it`, (t) => {
    const ours = lowerTable(table).chains.flatMap((chain) =>
      chain.rules.map((rule) => formatExpressions(rule.map(pad))),
    );
    const theirs = debugNetlink(formatTable(table));
    t.equal(ours.length, theirs.length);
    t.strictSame(ours, theirs);
    t.end();
  });
}
