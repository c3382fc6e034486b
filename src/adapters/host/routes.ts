// `prohibit` routes for the ranges of service addresses, in this process's own namespace, over rtnetlink. Nobody answers
// for these addresses: what the pods' rules did not capture then fails at once instead of leaving by the default route.
import type { VipRoutes } from '../../agent/deps.ts';
import { KernelError, messageOf } from '../../core/errors.ts';
import { type IpRange, parseIpRange } from '../../core/ip.ts';
import type { Log } from '../../core/log.ts';

type Netlink = typeof import('netlink');
type Socket = ReturnType<Netlink['createRtNetlink']>;
type RouteProtocol = Netlink['rt']['RouteProtocol'][keyof Netlink['rt']['RouteProtocol']];

/** RTA protocol of our routes (the byte is free, include/uapi/linux/rtnetlink.h): at removal ours are told from others'. */
const ROUTE_PROTOCOL = 0xae;
/** include/uapi/linux/rtnetlink.h, RT_TABLE_MAIN, and include/uapi/linux/socket.h by way of AF_INET and AF_INET6. */
const RT_TABLE_MAIN = 254;
const AF_INET = 2;
const AF_INET6 = 10;
const TIMEOUT_MS = 2000;
const BUFFER_BYTES = 32_768;
/** What a kernel without IPv6, or with IPv6 switched off, answers. */
const NO_IPV6 = new Set(['EOPNOTSUPP', 'EAFNOSUPPORT', 'EACCES', 'ENODEV', 'EPROTONOSUPPORT']);

/** A range that has a route already is left as it is; a kernel without IPv6 is said in the log. Throws KernelError. */
export class NetlinkVipRoutes implements VipRoutes {
  readonly #log: Log;

  constructor(log: Log) {
    this.#log = log;
  }

  async prohibit(ranges: readonly string[]): Promise<void> {
    await this.#forEach(
      ranges,
      async (socket, range) => {
        const { FlagsNew } = await loadNetlink();
        const flags = FlagsNew.CREATE | FlagsNew.EXCL;
        await socket.newRoute(...route(range), { flags, timeout: TIMEOUT_MS });
        this.#log.info('agent.vip_route.added', { range: range.text });
      },
      'EEXIST',
    );
  }

  async release(ranges: readonly string[]): Promise<void> {
    await this.#forEach(
      ranges,
      async (socket, range) => {
        await socket.delRoute(...route(range), { timeout: TIMEOUT_MS });
      },
      'ESRCH',
    );
  }

  async #forEach(
    ranges: readonly string[],
    change: (socket: Socket, range: IpRange) => Promise<void>,
    fine: string,
  ): Promise<void> {
    if (ranges.length === 0) return;
    const socket = (await loadNetlink()).createRtNetlink({
      ref: true,
      recvBufferSize: BUFFER_BYTES,
      sendBufferSize: BUFFER_BYTES,
    });
    try {
      for (const text of ranges) {
        const range = parseIpRange(text);
        if (range === undefined) throw new TypeError(`not a range: ${text}`);
        try {
          await change(socket, range);
        } catch (error) {
          const errnoName = errnoNameOf(error);
          if (errnoName === fine) this.#log.debug('agent.vip_route.unchanged', { range: text, reason: errnoName });
          else if (range.family === 6 && NO_IPV6.has(errnoName))
            this.#log.warn('agent.vip_route.no_ipv6', { range: text, reason: errnoName });
          else
            throw new KernelError(`changing the prohibit route of ${text}: ${messageOf(error)}`, 0, errnoName, {
              cause: error,
            });
        }
      }
    } finally {
      socket.socket.close();
    }
  }
}

// Loaded when it is needed: it costs 40 ms.
function loadNetlink(): Promise<typeof import('./netlink-library.ts')> {
  return import('./netlink-library.ts');
}

// ip route add prohibit 10.254.0.0/16 proto 174
function route(range: IpRange): [data: Parameters<Socket['newRoute']>[0], attrs: Parameters<Socket['newRoute']>[1]] {
  const data = {
    family: range.family === 4 ? AF_INET : AF_INET6,
    dstLen: range.prefixLength,
    table: RT_TABLE_MAIN,
    // The library's enum names only the protocols that the header does; the byte is open.
    protocol: ROUTE_PROTOCOL as RouteProtocol,
    scope: 'UNIVERSE',
    type: 'PROHIBIT',
  } as const;
  return [data, { dst: Buffer.from(range.bytes) }];
}

// The library says it in words only: `Request rejected: EEXIST`.
function errnoNameOf(error: unknown): string {
  return /\b(E[A-Z0-9]+)$/.exec(messageOf(error))?.[1] ?? 'EUNKNOWN';
}
