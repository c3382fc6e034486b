// The tables that `pods`, `services` and `snapshot` print; a cell with a line break does not break them.
import t from 'tap';
import { formatColumns } from '../../src/core/columns.ts';

t.test('formatColumns() aligns every column and ends no line in blanks', async (t) => {
  t.equal(
    formatColumns(
      ['POD', 'PORTS', 'PROXY'],
      [
        ['demo/shop-0', '8080', 'ready'],
        ['demo/db-0', '5432=tcp', ''],
      ],
    ),
    ['POD          PORTS     PROXY', 'demo/shop-0  8080      ready', 'demo/db-0    5432=tcp', ''].join('\n'),
  );
});

t.test('formatColumns() without rows is its header', async (t) => t.equal(formatColumns(['A', 'B'], []), 'A  B\n'));

t.test('formatColumns() keeps a row on its line', async (t) => t.equal(formatColumns(['A'], [['x\ny']]), 'A\nx y\n'));
