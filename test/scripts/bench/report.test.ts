// The README's block.
import t from 'tap';
import { replaceBlock } from '../../../scripts/bench/report.ts';

const AROUND = ['before\n\n<!-- bench -->\n', '<!-- end of bench -->\n\nafter <!-- other -->\n'] as const;

for (const [name, old] of [
  ['an empty block', ''],
  ['an old one', 'old\n\n| a |\n'],
]) {
  t.test(`replaceBlock() puts the new text in the place of ${name}`, async (t) => {
    const text = AROUND.join(old);
    t.equal(replaceBlock(text, { name: 'bench', block: 'new\n$& text' }), AROUND.join('new\n$& text\n'));
  });
}

for (const [name, text] of [
  ['no marks', 'text'],
  ['no end', '<!-- bench -->\n'],
  ['an end before the begin', '<!-- end of bench -->\n<!-- bench -->\n'],
] as const) {
  t.test(`replaceBlock() refuses a text with ${name}`, async (t) => {
    t.throws(() => replaceBlock(text, { name: 'bench', block: 'new' }), /its two marks are not there/);
  });
}
