// The policy of a pod from configuration and annotations, and that the agent reads the same from what it is told.
import fc from 'fast-check';
import t from 'tap';
import { effectiveAnnotations, parseCaptureDefaults, parseCapturePolicy } from '../../src/capture/parse-policy.ts';
import type { CapturePolicy } from '../../src/capture/policy.ts';
import { decodeNetConfig, readNetConfig } from '../../src/cni/net-config.ts';
import type { Parsed } from '../../src/core/problems.ts';

const ALL = 'capture.aether.io/redirect-all';
const PORTS = 'capture.aether.io/exclude-outbound-ports';
const RANGES = 'capture.aether.io/exclude-outbound-ip-ranges';

function valueOfParsed<T>(parsed: Parsed<T>): T {
  if (parsed.kind === 'problems') throw new Error(JSON.stringify(parsed.problems));
  return parsed.value;
}
function defaultsOf(config: Record<string, unknown>) {
  const source = decodeNetConfig(new TextEncoder().encode(JSON.stringify({ name: 'n', ...config })));
  return parseCaptureDefaults(readNetConfig(source).config);
}
function policyOf(annotations: Record<string, string>, config: Record<string, unknown> = {}): CapturePolicy {
  return valueOfParsed(parseCapturePolicy(annotations, valueOfParsed(defaultsOf(config))));
}

for (const [text, byDefault, wanted, warned] of [
  ['true', false, true, false],
  ['false', true, false, false],
  [undefined, false, false, false],
  [undefined, true, true, false],
  ['', true, true, true],
  ['True', false, false, true],
  [' true', false, false, true],
  ['1', true, true, true],
] as const) {
  t.test(`parseCapturePolicy() reads ${JSON.stringify(text)} with default ${byDefault}`, async (t) => {
    const defaults = valueOfParsed(defaultsOf({ capture_redirect_all_default: byDefault }));
    const parsed = parseCapturePolicy(text === undefined ? {} : { [ALL]: text }, defaults);
    t.match(parsed, { kind: 'value', value: { redirectAll: wanted }, warnings: warned ? [{ path: ALL }] : [] });
    if (parsed.kind === 'value') t.equal(parsed.warnings.length, warned ? 1 : 0);
  });
}

t.test('parseCapturePolicy() joins the exclusions of node and pod', async (t) => {
  const policy = policyOf(
    { [PORTS]: '80, 8000-8100', [RANGES]: 'fd00::/8,10.1.0.0/16' },
    { exclude_outbound_ports: [81, '8050-9000'], exclude_outbound_ip_ranges: '10.0.0.0/8' },
  );
  t.strictSame(policy.excludePorts, [
    { first: 80, last: 81 },
    { first: 8000, last: 9000 },
  ]);
  t.strictSame(
    policy.excludeRanges.map(({ text }) => text),
    ['10.0.0.0/8', 'fd00::/8'],
  );
});

t.test('parseCapturePolicy() names every bad item', async (t) => {
  const defaults = valueOfParsed(defaultsOf({}));
  const parsed = parseCapturePolicy({ [PORTS]: '80,70000,-1', [RANGES]: 'x' }, defaults);
  t.match(parsed, {
    kind: 'problems',
    problems: [{ path: `${PORTS}[1]` }, { path: `${PORTS}[2]` }, { path: `${RANGES}[0]` }],
  });
});

t.test('parseCaptureDefaults() names the keys of the configuration', async (t) => {
  const parsed = defaultsOf({ exclude_outbound_ports: [80, 0], exclude_outbound_ip_ranges: ['::/129'] });
  t.match(parsed, {
    kind: 'problems',
    problems: [{ path: 'exclude_outbound_ports[1]' }, { path: 'exclude_outbound_ip_ranges[0]' }],
  });
});

t.test('parseCapturePolicy() sends DNS to the host where mesh DNS is on', async (t) => {
  t.match(policyOf({}, { mesh_dns_enabled: true, host_ip: 'fd00::1' }).dns, {
    address: { text: 'fd00::1' },
    port: 18054,
  });
  t.notOk('dns' in policyOf({}, { host_ip: '10.0.0.1' }));
});

t.test('effectiveAnnotations() says the same to any node as the policy says here', async (t) => {
  const port = fc.integer({ min: 1, max: 65535 });
  const ports = fc.array(fc.tuple(port, port).map(([a, b]) => `${Math.min(a, b)}-${Math.max(a, b)}`));
  const ranges = fc.array(
    fc
      .oneof(
        fc.tuple(fc.ipV4(), fc.nat(32)),
        fc.tuple(
          fc.ipV6().filter((text) => !text.includes('.')),
          fc.nat(128),
        ),
      )
      .map((r) => r.join('/')),
  );
  const mode = fc.constantFrom('true', 'false', 'x', '');
  fc.assert(
    fc.property(
      ports,
      ranges,
      ports,
      ranges,
      mode,
      fc.boolean(),
      (nodePorts, nodeRanges, podPorts, podRanges, text, all) => {
        const annotations = { keep: 'me', [PORTS]: podPorts.join(), [RANGES]: podRanges.join(), [ALL]: text };
        const policy = policyOf(annotations, {
          capture_redirect_all_default: all,
          exclude_outbound_ports: nodePorts,
          exclude_outbound_ip_ranges: nodeRanges,
        });
        const told = effectiveAnnotations(annotations, policy);
        t.equal(told['keep'], 'me');
        t.strictSame(policyOf({ ...told }, { capture_redirect_all_default: !all }), policy);
      },
    ),
  );
});
