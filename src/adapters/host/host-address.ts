// Which address of this host others reach it by, where nobody said.
import { createSocket } from 'node:dgram';
import { existsSync } from 'node:fs';
import { type IpAddress, parseIp } from '../../core/ip.ts';

/** TEST-NET-1 and its IPv6 sister (RFC 5737, RFC 3849): connecting a datagram socket asks the routes and sends nothing. */
const PROBES = [
  { type: 'udp4', address: '192.0.2.1' },
  { type: 'udp6', address: '2001:db8::1' },
] as const;

/** The source address of the default route, IPv4 first; undefined without one. */
export async function findHostAddress(): Promise<IpAddress | undefined> {
  for (const { type, address } of PROBES) {
    const found = await sourceOf(type, address);
    if (found !== undefined) return found;
  }
  return undefined;
}

function sourceOf(type: 'udp4' | 'udp6', address: string): Promise<IpAddress | undefined> {
  return new Promise((resolve) => {
    const socket = createSocket(type);
    const finish = (ip?: IpAddress): void => {
      socket.close();
      resolve(ip);
    };
    socket.once('error', () => finish());
    socket.connect(9, address, () => finish(parseIp(socket.address().address)));
  });
}

/** Whether the kernel has IPv6 at all. */
export function hasIpv6(): boolean {
  return existsSync('/proc/net/if_inet6');
}
