// Where the native code lies that this program loads: inside the executable as assets (node:sea), in the source tree as
// files. An asset has to be mapped from a file, so it is written to one without a name: nothing is left behind, nobody else
// can open it, and it goes with the process. The file's descriptor stays open on purpose: its /proc path is its only name.

import { randomUUID } from 'node:crypto';
import { accessSync, closeSync, constants, openSync, unlinkSync, writeSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { getRawAsset, isSea } from 'node:sea';
import { NativeError } from '../../core/errors.ts';

/** `asset` is the name inside the executable, `source` the file in the source tree. */
const PIECES = {
  ffi: {
    asset: 'ffi-rs.node',
    source: 'node_modules/@yuuang/ffi-rs-linux-x64-gnu/ffi-rs.linux-x64-gnu.node',
  },
  netlink: { asset: 'netlink.node', source: 'node_modules/netlink/prebuilds/linux-x64/node.napi.node' },
  libmnl: { asset: 'libmnl.so.0', source: 'build/native/libmnl.so.0' },
  libnftnl: { asset: 'libnftnl.so.11', source: 'build/native/libnftnl.so.11' },
  libaether: { asset: 'libaether.so', source: 'build/native/libaether.so' },
} as const;

export type NativePiece = keyof typeof PIECES;

function sourcePath(piece: NativePiece): string {
  return join(import.meta.dirname, '../../..', PIECES[piece].source);
}

/** The file of each piece in the source tree, by asset name: `libmnl.so.0` -> an absolute path. For the build. */
export function listNativeSources(): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(PIECES).map(([piece, { asset }]) => [asset, sourcePath(piece as NativePiece)]),
  );
}

const located = new Map<NativePiece, string>();

/**
 * A path that dlopen takes, the same at every call of this process. In the executable it is `/proc/self/fd/<n>`, so it means
 * nothing to another process. Throws NativeError when no file system of this host lets a file be mapped as code.
 */
export function locateNative(piece: NativePiece): string {
  let path = located.get(piece);
  if (path === undefined) {
    path = isSea() ? extractAsset(PIECES[piece].asset) : sourcePath(piece);
    located.set(piece, path);
  }
  return path;
}

/**
 * The addon and the three libraries. Load libmnl before libnftnl before libaether: glibc then takes what each one needs
 * from those that are loaded, by soname. Throws NativeError.
 */
export function locateNativeLibraries(): { ffi: string; libmnl: string; libnftnl: string; libaether: string } {
  return {
    ffi: locateNative('ffi'),
    libmnl: locateNative('libmnl'),
    libnftnl: locateNative('libnftnl'),
    libaether: locateNative('libaether'),
  };
}

// open(2), O_TMPFILE of include/uapi/asm-generic/fcntl.h; it includes O_DIRECTORY. Node does not export it.
const O_TMPFILE = 0o20000000 | constants.O_DIRECTORY;

/** Memory before disk. Each may be absent, read-only or noexec (/dev/shm in a container, /run on Debian). */
function listDirectories(): string[] {
  return ['/dev/shm', dirname(process.execPath), '/run/aether', '/var/lib/aether', '/tmp'];
}

function openUnnamed(directory: string): number {
  return openSync(directory, O_TMPFILE | constants.O_RDWR, 0o700);
}

/** For file systems without O_TMPFILE. */
function openUnlinked(directory: string): number {
  const path = join(directory, `.aether-cni-${randomUUID()}`);
  const fd = openSync(path, constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW | constants.O_RDWR, 0o700);
  unlinkSync(path);
  return fd;
}

function extractAsset(name: string): string {
  const bytes = new Uint8Array(getRawAsset(name));
  const failures: string[] = [];
  for (const directory of listDirectories()) {
    for (const open of [openUnnamed, openUnlinked]) {
      let fd: number | undefined;
      try {
        fd = open(directory);
        for (let done = 0; done < bytes.length; ) done += writeSync(fd, bytes, done);
        const path = `/proc/self/fd/${fd}`;
        // The kernel denies X_OK for a regular file of a noexec mount, where mapping it as code would fail too.
        accessSync(path, constants.X_OK);
        return path;
      } catch (error) {
        if (fd !== undefined) closeSync(fd);
        failures.push(`${directory}: ${error instanceof Error ? error.message : String(error)}`);
      }
    }
  }
  throw new NativeError(`extract native asset "${name}": no directory can hold code: ${failures.join('; ')}`);
}
