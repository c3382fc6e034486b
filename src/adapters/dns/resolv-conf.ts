// The node's own resolvers, resolv.conf(5).
import { readFileSync, statSync } from 'node:fs';
import { parseSocketAddress, type SocketAddress } from '../../core/socket-address.ts';

const DNS_PORT = 53;
/** resolv.h, MAXNS. */
const MAX_NAMESERVERS = 3;

/** The `nameserver` lines, in order, three at most; a line that names no address is passed over. */
export function parseResolvConf(text: string): readonly SocketAddress[] {
  const found: SocketAddress[] = [];
  for (const line of text.split('\n')) {
    const match = /^\s*nameserver\s+(\S+)/.exec(line);
    const server = match?.[1] === undefined ? undefined : parseSocketAddress(match[1], DNS_PORT);
    if (server !== undefined) found.push(server);
  }
  return found.slice(0, MAX_NAMESERVERS);
}

/** Reads the file now and again after it changed, looking at most once in five seconds. A missing file has no resolvers. */
export function followResolvConf(path: string): () => readonly SocketAddress[] {
  let servers: readonly SocketAddress[] = [];
  let seen = '';
  let lookedMs = Number.NEGATIVE_INFINITY;
  return () => {
    if (Date.now() - lookedMs < 5000) return servers;
    lookedMs = Date.now();
    try {
      const { mtimeMs, ino, size } = statSync(path);
      if (seen === `${mtimeMs} ${ino} ${size}`) return servers;
      servers = parseResolvConf(readFileSync(path, 'utf8'));
      seen = `${mtimeMs} ${ino} ${size}`;
    } catch {
      // Kept: a file that is being replaced is away for a moment.
    }
    return servers;
  };
}
