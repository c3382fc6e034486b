// The mesh hop on port 18008 of a pod: a workload of the trust domain is served, everybody else gets not one byte.
import type { Dial, DialReport } from '../../scripts/lab/dial.ts';
import { startLab } from '../../scripts/lab/lab.ts';
import { enterSandbox } from '../../scripts/lab/sandbox.ts';
import { signWithRootOf, signWithStrangeRoot } from '../support/lab-certificates.ts';

const sandbox = await enterSandbox(import.meta.filename);
// Only inside the sandbox: outside, this process prints nothing of its own.
const { default: t } = await import('tap');
t.setTimeout(240_000);
const lab = await startLab(sandbox);
const { caDir } = lab.places;

const WORKLOAD = 'spiffe://aether.internal/ns/demo/sa/tester';
const good = await signWithRootOf(caDir, WORKLOAD);
/** An HTTP request for the HTTP chains' sake, and bytes that the echo would send back. */
const TEXT = 'GET / HTTP/1.1\r\nHost: shop\r\n\r\n';

const strangers: readonly { readonly name: string; readonly dial: Partial<Dial> }[] = [
  { name: 'without TLS', dial: { kind: 'raw' } },
  { name: 'without a certificate', dial: {} },
  {
    name: 'with a certificate of a strange root for a name of the mesh',
    dial: { certificate: await signWithStrangeRoot(caDir, WORKLOAD) },
  },
  {
    name: 'with a certificate of a strange root for another trust domain',
    dial: { certificate: await signWithStrangeRoot(caDir, 'spiffe://other.example/ns/demo/sa/tester') },
  },
  {
    name: 'with a certificate of our root for another trust domain',
    dial: { certificate: await signWithRootOf(caDir, 'spiffe://other.example/ns/demo/sa/tester') },
  },
  {
    name: 'with a certificate of our root for a trust domain that begins like ours',
    dial: { certificate: await signWithRootOf(caDir, 'spiffe://aether.internal.evil/ns/demo/sa/tester') },
  },
  {
    name: 'with a certificate of our root without a name',
    dial: { certificate: await signWithRootOf(caDir, undefined) },
  },
];

/** Each of the inbound listener's chains: the floor, TCP by server name, HTTP by ALPN, HTTP by server name. */
const chains: readonly { readonly name: string; readonly dial: Partial<Dial> }[] = [
  { name: 'no server name', dial: {} },
  { name: 'server name 9000', dial: { serverName: '9000' } },
  { name: 'ALPN h2', dial: { alpn: ['h2'] } },
  { name: 'server name 8080, ALPN h2', dial: { serverName: '8080', alpn: ['h2'] } },
];

await t.test('a workload of the mesh is served', async (t) => {
  for (const family of [4, 6] as const) {
    const report = await dialInbound(family, { certificate: good, serverName: '9000' });
    t.match(report, { outcome: 'answered', text: /^shop:9000 GET/ }, `IPv${family}`);
  }
});

for (const stranger of strangers) {
  await t.test(`a client ${stranger.name} gets nothing`, async (t) => {
    for (const chain of chains) {
      for (const family of [4, 6] as const) {
        const report = await dialInbound(family, { ...chain.dial, ...stranger.dial });
        t.notOk(report.text, `${chain.name}, IPv${family}: ${JSON.stringify(report)}`);
        t.match(report.outcome, /^(closed|refused|failed)$/, `${chain.name}, IPv${family}: ends`);
      }
    }
  });
}

await t.test('the lab ends in good order', async (t) => {
  await lab[Symbol.asyncDispose]();
  t.pass();
});

async function dialInbound(family: 4 | 6, more: Partial<Dial>): Promise<DialReport> {
  const shop = lab.pod('shop');
  const host = family === 4 ? shop.ip4 : shop.ip6;
  const base = { kind: 'tls', host, port: 18008, family, timeoutMs: 4000, text: TEXT } as const;
  return (await lab.dial('node', { ...base, ...more })).report;
}
