// What a kernel has, as text: ours in nft's spelling, everything else said as a comment.
import t from 'tap';
import { formatKernelTable } from '../../src/nft/format-kernel-table.ts';
import { formatTableBody } from '../../src/nft/text.ts';
import { TABLES } from '../support/capture-cases.ts';
import { reportTable } from '../support/kernel-report.ts';

for (const [name, table] of Object.entries(TABLES)) {
  t.test(`formatKernelTable() of ${name} is the plan's own text`, async (t) => {
    t.equal(formatKernelTable(reportTable(table), table), formatTableBody(table));
  });
}

t.test('formatKernelTable() leaves nothing out that others put there', async (t) => {
  const [table] = Object.values(TABLES);
  if (table === undefined) throw new Error('no table');
  const found = reportTable(table);
  const text = formatKernelTable(
    {
      ...found,
      isDormant: true,
      sets: [...found.sets, { name: 'theirs', keyType: 12, keyLength: 1, flags: 0, elements: [] }],
      chains: [
        ...found.chains.map((chain) => ({
          ...chain,
          rules: [...chain.rules, [{ kind: 'foreign', name: 'counter', detail: '' } as const]],
        })),
        { name: 'jumped_to', rules: [] },
      ],
    },
    table,
  );
  t.match(text, /\tflags dormant\n/);
  t.match(text, /\t# set theirs: none of ours, key type 12 of 1 bytes\n/);
  t.match(text, /\t\t# none of ours: \[ counter \]\n/);
  t.match(text, /\tchain jumped_to \{\n\t\}\n/);
});
