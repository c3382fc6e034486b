// Which packages an executable is made of, so that each one's licence goes with it: nested and scoped ones, too.
import t from 'tap';
import { listPackages } from '../../scripts/third-party.ts';

t.test('listPackages() names the innermost package of each file, once', async (t) => {
  const files = [
    '/r/node_modules/b/x.js',
    '/r/node_modules/@s/a/y.js',
    '/r/node_modules/b/node_modules/c/z.js',
    '/r/src/m.ts',
  ];
  t.same(listPackages([...files, ...files]), [
    '/r/node_modules/@s/a',
    '/r/node_modules/b',
    '/r/node_modules/b/node_modules/c',
  ]);
});
