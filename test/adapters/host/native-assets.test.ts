// The source tree's side; the executable's is test/e2e/executable.test.ts.
import { existsSync } from 'node:fs';
import t from 'tap';
import { listNativeSources, locateNative, locateNativeLibraries } from '../../../src/adapters/host/native-assets.ts';

t.test('locateNativeLibraries() gives files that exist', async (t) => {
  const libraries = locateNativeLibraries();
  t.same(Object.keys(libraries), ['ffi', 'libmnl', 'libnftnl', 'libaether']);
  for (const [piece, path] of Object.entries(libraries)) t.ok(existsSync(path), `${piece}: ${path}`);
});

t.test('listNativeSources() names each asset as its library is called', async (t) => {
  t.same(Object.keys(listNativeSources()), [
    'ffi-rs.node',
    'netlink.node',
    'libmnl.so.0',
    'libnftnl.so.11',
    'libaether.so',
  ]);
  t.ok(Object.values(listNativeSources()).includes(locateNative('netlink')), 'the same file that locateNative() gives');
});
