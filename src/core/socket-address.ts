// An IP address with a port, as settings spell it.
import { type IpAddress, parseIp } from './ip.ts';

/** `port` 0..65535; 0 lets the kernel choose. */
export interface SocketAddress {
  readonly address: IpAddress;
  readonly port: number;
}

/** Reads `10.0.0.1:53` or `[fd00::1]:53`; without a port `defaultPort` where there is one, and then without brackets too. */
export function parseSocketAddress(text: string, defaultPort?: number): SocketAddress | undefined {
  const bare = defaultPort === undefined ? undefined : parseIp(text);
  if (bare !== undefined && defaultPort !== undefined) return { address: bare, port: defaultPort };
  const match = /^(?:\[([^\]]+)\]|([0-9.]+)):([0-9]{1,5})$/.exec(text);
  const address = parseIp(match?.[1] ?? match?.[2] ?? '');
  const port = Number(match?.[3]);
  if (address === undefined || port > 65535) return undefined;
  // Brackets are for IPv6 only, which needs them.
  if ((match?.[1] !== undefined) !== (address.family === 6)) return undefined;
  return { address, port };
}

/** `10.0.0.1:53`, `[fd00::1]:53`. */
export function formatSocketAddress({ address, port }: SocketAddress): string {
  return address.family === 6 ? `[${address.text}]:${port}` : `${address.text}:${port}`;
}
