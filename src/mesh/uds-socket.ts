// `endpoint.aether.io/uds-socket`: an application that listens on a Unix socket in one of its pod's emptyDir volumes instead
// of on ports. All ports of the pod lead to that one socket; their protocols stay what they are.
import { withoutEndSlash } from '../core/identifiers.ts';
import type { ProblemList } from '../core/problems.ts';
import { quoteValue } from '../core/problems.ts';
import { ANNOTATION_UDS_SOCKET } from './constants.ts';

/** `<volume>/<file>`, both single names. */
export interface UdsSocket {
  readonly volume: string;
  readonly file: string;
}

/** sun_path (linux/un.h) without its final zero. */
const SUN_PATH_MAX = 107;

/** Reads the annotation; undefined without one, or with a problem in the list. */
export function parseUdsSocket(text: string | undefined, list: ProblemList): UdsSocket | undefined {
  if (text === undefined) return undefined;
  const parts = text.split('/');
  const [volume = '', file = ''] = parts;
  if (parts.length === 2 && isCleanName(volume) && isCleanName(file)) return { volume, file };
  list.add(ANNOTATION_UDS_SOCKET, `must be "volume/file", two plain names, got ${quoteValue(text)}`);
  return undefined;
}

/**
 * Where the kubelet keeps the socket: `<pods dir>/<uid>/volumes/kubernetes.io~empty-dir/<volume>/<file>`. `podsDir` undefined:
 * this node does not offer it. Undefined with a problem in the list.
 */
export function resolveUdsSocket(
  { volume, file }: UdsSocket,
  { podsDir, uid }: { readonly podsDir: string | undefined; readonly uid: string },
  list: ProblemList,
): string | undefined {
  const problem = (message: string): undefined => list.add(ANNOTATION_UDS_SOCKET, message) as undefined;
  if (podsDir === undefined) return problem('this node delivers to no Unix sockets (--kubelet-pods-dir off)');
  if (!isCleanName(uid)) return problem(`needs the pod's UID, and the runtime gave ${quoteValue(uid)} (K8S_POD_UID)`);
  const path = `${withoutEndSlash(podsDir)}/${uid}/volumes/kubernetes.io~empty-dir/${volume}/${file}`;
  const bytes = new TextEncoder().encode(path).length;
  if (bytes <= SUN_PATH_MAX) return path;
  return problem(`the path of a socket has ${SUN_PATH_MAX} bytes at most, ${quoteValue(path)} has ${bytes}`);
}

// A name of one directory entry: nothing that leads out of the pod's own volume, nothing that ends a C string.
function isCleanName(text: string): boolean {
  return text !== '' && text !== '.' && text !== '..' && !text.includes('/') && !text.includes('\u0000');
}
