// Paths as another process sees them: below its root directory and through its mounts. The native functions take such a path
// wherever they take a path (native/libaether.h).
import type { NetnsPath } from '../../core/identifiers.ts';
import { kernelError } from './errno.ts';
import type { NativeLibrary } from './native-library.ts';

/** A process by number and by a descriptor that stands for it alone. */
export class PeerView implements Disposable {
  readonly pid: number;
  readonly pidfd: number;
  readonly #close: (fd: number) => void;

  constructor({ pid, pidfd, close }: Pick<PeerView, 'pid' | 'pidfd'> & { readonly close: (fd: number) => void }) {
    this.pid = pid;
    this.pidfd = pidfd;
    this.#close = close;
  }

  /** Good while the view is open. */
  resolve(path: string): NetnsPath {
    return `@${this.pid}:${this.pidfd}:${path}` as NetnsPath;
  }

  [Symbol.dispose](): void {
    this.#close(this.pidfd);
  }
}

const IN_VIEW = /^@\d+:\d+:/;

/** As its owner wrote it, for people. */
export function plainPath(path: string): string {
  return path.replace(IN_VIEW, '');
}

/**
 * `fd`: a connected unix socket, still the caller's; `pid` of its peer, not 0. `close` gives a descriptor back. Throws
 * KernelError: ESRCH where the peer has ended.
 */
export function openPeerView(
  native: NativeLibrary,
  { fd, pid, close }: { readonly fd: number; readonly pid: number; readonly close: (fd: number) => void },
): PeerView {
  const pidfd = native.call('ae_peer_pidfd', fd);
  if (pidfd < 0) throw kernelError(`watch process ${pid}`, -pidfd);
  return new PeerView({ pid, pidfd, close });
}
