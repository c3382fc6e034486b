// Who is not of the mesh dials the mesh hop of a pod, port 18008: not one byte may come back.
import { INBOUND_PORT } from '../../src/mesh/constants.ts';
import type { Dial, DialReport } from './dial.ts';
import type { Lab } from './lab.ts';
import { describeReport } from './resolution-table.ts';
import { issueStrange, STRANGE_DOMAIN } from './strange-authority.ts';
import { formatTable } from './text-table.ts';

const TEXT = 'GET / HTTP/1.1\r\nHost: shop\r\n\r\n';

export interface StrangerResult {
  readonly stranger: string;
  readonly reports: readonly DialReport[];
  readonly agrees: boolean;
}

/** Dials the hop of `shop` from the node, in both families: without TLS, without a certificate, from another trust domain. */
export async function runStrangers(lab: Lab): Promise<readonly StrangerResult[]> {
  const shop = lab.pod('shop');
  const strangers: readonly (readonly [string, Partial<Dial>])[] = [
    ['without TLS', { kind: 'raw' }],
    ['without a certificate', {}],
    [`with a certificate of ${STRANGE_DOMAIN}`, { certificate: await issueStrange(lab.dir) }],
  ];
  const results: StrangerResult[] = [];
  for (const [stranger, more] of strangers) {
    const reports: DialReport[] = [];
    for (const family of [4, 6] as const) {
      const host = family === 4 ? shop.ip4 : shop.ip6;
      const dial = { kind: 'tls', host, port: INBOUND_PORT, family, timeoutMs: 4000, serverName: '9000' } as const;
      reports.push((await lab.dial('node', { ...dial, text: TEXT, ...more })).report);
    }
    results.push({ stranger, reports, agrees: reports.every(({ outcome }) => GIVES_NOTHING.has(outcome)) });
  }
  return results;
}

const GIVES_NOTHING: ReadonlySet<string> = new Set(['closed', 'refused', 'failed']);

export function formatStrangers(results: readonly StrangerResult[]): string {
  const lines = results.map(({ stranger, reports, agrees }) => [
    agrees ? 'ok' : 'FAIL',
    `shop-0:${INBOUND_PORT} ${stranger}`,
    'nothing',
    [...new Set(reports.map(describeReport))].join('; '),
    `${reports.map((report) => report.ms).join(' / ')} ms`,
  ]);
  return formatTable([['', 'dialled', 'expected', 'seen', 'time (v4 / v6)'], ...lines]);
}
