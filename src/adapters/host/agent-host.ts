// What the agent's own process and network namespace are like, read from /proc at every question.
import { readFileSync } from 'node:fs';
import type { AgentHost } from '../../agent/node-check.ts';
import { type IpRange, parseIpRange } from '../../core/ip.ts';

export const agentHost: Omit<AgentHost, 'loopDelay'> = {
  openFileLimit: () => parseOpenFileLimit(readText('/proc/self/limits') ?? ''),
  listUnrefused: (ranges) =>
    findUnrefused(ranges, { ipv4: readText('/proc/net/route'), ipv6: readText('/proc/net/ipv6_route') }),
};

/** The soft limit out of /proc/<pid>/limits; undefined where the text has none. `unlimited` is the largest number. */
export function parseOpenFileLimit(text: string): number | undefined {
  const [, soft] = /^Max open files\s+(\S+)/m.exec(text) ?? [];
  if (soft === undefined) return undefined;
  return soft === 'unlimited' ? Number.MAX_SAFE_INTEGER : Number(soft);
}

export interface RouteTexts {
  /** /proc/net/route; undefined: cannot be read. */
  readonly ipv4: string | undefined;
  /** /proc/net/ipv6_route; undefined: the kernel has no IPv6. */
  readonly ipv6: string | undefined;
}

/** linux/route.h: what `prohibit`, `unreachable` and `blackhole` look like in these files. */
const RTF_REJECT = 0x200;

/** The ranges without a route of their own that refuses; a family that cannot be read is left out. */
export function findUnrefused(ranges: readonly string[], { ipv4, ipv6 }: RouteTexts): readonly string[] {
  const refused = {
    4: ipv4 === undefined ? undefined : readIpv4(ipv4),
    6: ipv6 === undefined ? undefined : readIpv6(ipv6),
  };
  return ranges.filter((text) => {
    const range = parseIpRange(text);
    return range !== undefined && refused[range.family]?.has(routeKey(range)) === false;
  });
}

function routeKey({ bytes, prefixLength }: IpRange): string {
  return `${Buffer.from(bytes).toString('hex')}/${prefixLength}`;
}

// `*  0000FE0A  00000000  0201  0 0 0  0000FFFF …`: numbers as the host has them in memory, so the bytes come reversed.
function readIpv4(text: string): ReadonlySet<string> {
  return new Set(
    text.split('\n').flatMap((line) => {
      const [, destination, , flags, , , , mask] = line.trim().split(/\s+/);
      if (destination === undefined || flags === undefined || mask === undefined) return [];
      if ((Number.parseInt(flags, 16) & RTF_REJECT) === 0) return [];
      const bits = Number.parseInt(mask, 16).toString(2).replaceAll('0', '').length;
      return [`${Buffer.from(destination, 'hex').reverse().toString('hex')}/${bits}`];
    }),
  );
}

// `fd0ae7e0… 70 0000… 00 0000… 00000400 00000001 00000000 00200200 lo`: destination, prefix length, …, flags.
function readIpv6(text: string): ReadonlySet<string> {
  return new Set(
    text.split('\n').flatMap((line) => {
      const fields = line.trim().split(/\s+/);
      const [destination, prefixLength, , , , , , , flags] = fields;
      if (destination === undefined || prefixLength === undefined || flags === undefined) return [];
      if ((Number.parseInt(flags, 16) & RTF_REJECT) === 0) return [];
      return [`${destination}/${Number.parseInt(prefixLength, 16)}`];
    }),
  );
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}
