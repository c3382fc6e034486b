// Entry of a small executable made in test/e2e/executable.test.ts: loads every piece of native code and calls into it.
// Prints one JSON line: the paths used, and what the calls gave.
import { loadFfi } from '../../src/adapters/host/load-ffi.ts';
import { locateNative, locateNativeLibraries } from '../../src/adapters/host/native-assets.ts';

const { DataType, load, open } = loadFfi();
const { libmnl, libnftnl, libaether } = locateNativeLibraries();
open({ library: 'libmnl', path: libmnl });
open({ library: 'libnftnl', path: libnftnl });
open({ library: 'libaether', path: libaether });

const stage = Buffer.alloc(4);
const ownNamespace = load({
  library: 'libaether',
  funcName: 'ae_netns_check',
  retType: DataType.I32,
  paramsType: [DataType.String, DataType.U8Array],
  paramsValue: ['/proc/self/ns/net', stage],
});
const headerSize = load({
  library: 'libmnl',
  funcName: 'mnl_nlmsg_size',
  retType: DataType.U64,
  paramsType: [DataType.U64],
  paramsValue: [0],
});
const table = load({
  library: 'libnftnl',
  funcName: 'nftnl_table_alloc',
  retType: DataType.BigInt,
  paramsType: [],
  paramsValue: [],
});

// A promise, as in every command: the lazy import must work inside the executable.
void import('../../src/adapters/host/netlink-library.ts').then(({ createRtNetlink }) => {
  createRtNetlink();
  // What the kernel says is mapped as code, not what was asked for.
  const { readFileSync } = process.getBuiltinModule('node:fs');
  const mapped = readFileSync('/proc/self/maps', 'utf8')
    .split('\n')
    .filter((line) => line.includes(' r-xp '))
    .map((line) => line.slice(line.indexOf('/')));
  process.stdout.write(
    `${JSON.stringify({
      paths: { ffi: locateNative('ffi'), netlink: locateNative('netlink'), libmnl, libnftnl, libaether },
      ownNamespace: Number(ownNamespace),
      stage: stage.readInt32LE(),
      headerSize: Number(headerSize),
      table: table !== 0n,
      mapped,
    })}\n`,
  );
});
