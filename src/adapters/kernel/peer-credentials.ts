// Who is at the other end of a unix socket, by the kernel's word (SO_PEERCRED).
import { Buffer } from 'node:buffer';
import { kernelError } from './errno.ts';
import type { NativeLibrary } from './native-library.ts';

/** As they were when the peer connected. `pid` is 0 for a process outside our pid namespace. */
export interface PeerCredentials {
  readonly pid: number;
  readonly uid: number;
  readonly gid: number;
}

/** `fd`: a connected unix socket, still the caller's. Throws KernelError: ENOTSOCK, EBADF. */
export function readPeerCredentials(native: NativeLibrary, fd: number): PeerCredentials {
  const ids = Buffer.alloc(12);
  const status = native.call('ae_peer_credentials', fd, ids);
  if (status < 0) throw kernelError(`read the peer's credentials of descriptor ${fd}`, -status);
  return { pid: ids.readInt32LE(0), uid: ids.readUInt32LE(4), gid: ids.readUInt32LE(8) };
}
