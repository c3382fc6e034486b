// ffi-rs really calls into C: a function of the libmnl that the executable carries.
import t from 'tap';
import { loadFfi } from '../../../src/adapters/host/load-ffi.ts';
import { locateNativeLibraries } from '../../../src/adapters/host/native-assets.ts';
import { buildNative } from '../../support/native.ts';

t.test('loadFfi() gives one module that calls into C', async (t) => {
  buildNative();
  const { DataType, load, open } = loadFfi();
  open({ library: 'libmnl', path: locateNativeLibraries().libmnl });
  // libmnl.h: size_t mnl_nlmsg_size(size_t len), the length plus a 16 byte header.
  const size = load({
    library: 'libmnl',
    funcName: 'mnl_nlmsg_size',
    retType: DataType.I32,
    paramsType: [DataType.I32],
    paramsValue: [20],
  });
  t.equal(size, 36);
  t.equal(loadFfi(), loadFfi());
});
