// The resolution table with `--capture-form single`: Envoy alone decides, the agent writes nothing to the pods. What this
// form cannot do, by its nature: refuse before the connection is taken, and decide about a client that may yet speak HTTP, or
// waits for the server, without the inspectors' second (the TCP mesh port excepted).
import { execFileSync } from 'node:child_process';
import type { DialReport } from '../../scripts/lab/dial.ts';
import { type Lab, startLab } from '../../scripts/lab/lab.ts';
import { type CaptureMode, type ResolutionRow, resolutionRows } from '../../scripts/lab/resolution-table.ts';
import { formatResults, runRow } from '../../scripts/lab/run-table.ts';
import { enterSandbox } from '../../scripts/lab/sandbox.ts';
import {
  CHAIN_ANYPORT,
  CHAIN_PASSTHROUGH,
  CHAIN_TCP,
  CHAIN_TCP_BLACKHOLE,
  singleAnyportChainName,
  singleTcpChainName,
} from '../../src/mesh/names.ts';

const sandbox = await enterSandbox(import.meta.filename);
// Only inside the sandbox: outside, this process prints nothing of its own.
const { default: t } = await import('tap');
t.setTimeout(240_000);
const lab = await startLab(sandbox, { agentFlags: ['--capture-form', 'single'] });

const WAITING_MS = 1500;
/** What the node's route refuses it tells by ICMP, of which the kernel sends one a second to an address. */
const PROHIBITED_MS = 3500;
/** More than the longest time that a dial takes. */
const DIAL_MS = 6000;

for (const mode of ['redirect-all', 'scoped'] as const) {
  for (const family of [4, 6] as const) {
    await t.test(`resolution in the single form, ${mode}, IPv${family}`, async (t) => {
      for (const row of resolutionRows(mode).map((each) => inSingleForm(each, mode))) {
        const result = await runRow(lab, row, { mode, family });
        t.strictSame(result.disagreements, [], `${row.spelling} gives ${row.expected}`, {
          seen: formatResults([result]),
        });
      }
    });
  }
}

await t.test("the pods' namespaces hold nothing of the agent's", (t) => {
  t.notMatch(listTables(lab), /aether_mesh/);
  t.match(listTables(lab), /table inet aether$/m);
  t.end();
});

await t.test('the lab ends in good order', async (t) => {
  await lab[Symbol.asyncDispose]();
  t.pass();
});

function listTables({ pod }: Lab): string {
  const names = ['client', 'scoped', 'shop', 'db', 'web'];
  return names
    .map((name) => execFileSync('nsenter', [`--net=${pod(name).netns}`, 'nft', 'list', 'tables'], { encoding: 'utf8' }))
    .join('');
}

/** What the row means where Envoy alone decides. */
function inSingleForm(row: ResolutionRow, mode: CaptureMode): ResolutionRow {
  const { dial, chains } = row;
  if (dial.kind === 'udp') return row;
  const isCaptured = mode === 'redirect-all' || dial.port === 18081 || dial.port === 18082;
  if (!isCaptured) {
    // Without the agent's table nothing in the pod answers for an address of the mesh: the node's route does, in its time.
    const agrees: ResolutionRow['agrees'] = ({ outcome }) => outcome !== 'answered';
    return { ...row, withinMs: DIAL_MS, expected: 'not captured, nobody there', agrees };
  }
  if (chains?.length === 0) return { ...row, expected: 'closed', agrees: failed, chains: [CHAIN_TCP_BLACKHOLE] };
  const mayBeHttp = dial.kind === 'silent' || (dial.kind === 'raw' && dial.text === 'ping-long');
  const waitMs = mayBeHttp && dial.port !== 18082 ? WAITING_MS : 0;
  const routeMs = chains?.includes(CHAIN_PASSTHROUGH) ? PROHIBITED_MS : 0;
  return {
    ...row,
    withinMs: Math.max(row.withinMs, waitMs, routeMs),
    ...(chains === undefined ? {} : { chains: chains.map((chain) => inSingleChain(chain, dial)) }),
  };
}

function failed({ outcome }: DialReport): boolean {
  return ['refused', 'closed', 'unreachable'].includes(outcome);
}

function inSingleChain(chain: string, { host, port }: ResolutionRow['dial']): string {
  const key = { namespace: 'demo', serviceAccount: host.split('.')[0] ?? '' };
  if (chain === CHAIN_ANYPORT) return singleAnyportChainName(key);
  return chain === CHAIN_TCP ? singleTcpChainName(key, port === 18082 ? undefined : port) : chain;
}
