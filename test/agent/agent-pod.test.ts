// What the agent works out of an ADD's annotations and its own settings; what is wrong with a pod is said all at once.
import t from 'tap';
import { parseAgentPod, recordOfRequest } from '../../src/agent/agent-pod.ts';
import { formatProblem } from '../../src/core/problems.ts';
import { podRequest, TestKernel } from '../support/agent-world.ts';

const FACTS = {
  nodeName: 'n',
  clusterName: 'c',
  region: 'r',
  zone: 'z',
  hostIp: '192.0.2.1',
  trustDomain: 'td',
  redirectAllDefault: false,
};
const request = (annotations: Readonly<Record<string, string>>) =>
  podRequest(new TestKernel(), 'demo/shop-0', { ip: '10.1.2.3', annotations });

function parse(annotations: Readonly<Record<string, string>>, redirectAllDefault = false) {
  const record = recordOfRequest(request(annotations));
  if (record === undefined) throw new Error('not managed');
  return parseAgentPod(record, { ...FACTS, redirectAllDefault });
}

t.test('recordOfRequest() takes the service account from its annotation, else default', (t) => {
  const cases = [
    [{ 'aether.io/service-account': 'cart' }, 'cart'],
    [{ 'aether.io/service-account': '' }, 'default'],
  ] as const;
  for (const [annotations, want] of cases) t.equal(recordOfRequest(request(annotations))?.serviceAccount, want);
  const { 'aether.io/service-account': _, ...rest } = request({}).annotations;
  t.equal(recordOfRequest({ ...request({}), annotations: rest })?.serviceAccount, 'default');
  t.end();
});

t.test('parseAgentPod() decides the capture mode by exactly true and false', (t) => {
  const cases: readonly [string | undefined, boolean, boolean][] = [
    ['true', false, true],
    ['false', true, false],
    [undefined, true, true],
    [undefined, false, false],
    ['True', false, false],
    ['yes', true, true],
  ];
  for (const [text, fallback, want] of cases) {
    const parsed = parse(text === undefined ? {} : { 'capture.aether.io/redirect-all': text }, fallback);
    t.match(
      parsed,
      { kind: 'value', value: { policy: { redirectAll: want }, node: { redirectAll: want } } },
      `${text} ${fallback}`,
    );
  }
  t.end();
});

t.test('parseAgentPod() works everything out of the record', (t) => {
  const parsed = parse({
    'endpoint.aether.io/ports': '8080,9000=tcp',
    'endpoint.aether.io/weight': '7',
    'metadata.endpoint.aether.io/version': 'v2',
    'capture.aether.io/exclude-outbound-ports': '9200,80-90',
    'capture.aether.io/exclude-outbound-ip-ranges': '10.0.0.0/8,fd00::/8',
  });
  t.match(parsed, {
    kind: 'value',
    value: {
      netns: '/run/netns/c-shop-0',
      node: { resourceName: 'demo_shop-0', netnsPath: '/run/netns/c-shop-0', identity: 'spiffe://td/ns/demo/sa/shop' },
      policy: {
        excludePorts: [
          { first: 80, last: 90 },
          { first: 9200, last: 9200 },
        ],
        excludeRanges: [{ text: '10.0.0.0/8' }, { text: 'fd00::/8' }],
      },
      endpoint: { weight: 7, metadata: { version: 'v2' }, locality: { region: 'r', zone: 'z' }, nodeIp: '192.0.2.1' },
      protocols: ['http', 'tcp'],
    },
  });
  t.end();
});

t.test('parseAgentPod() names what is wrong with both halves at once', (t) => {
  const parsed = parse({
    'endpoint.aether.io/port': '0',
    'capture.aether.io/exclude-outbound-ip-ranges': '10.0.0.0/33',
  });
  t.match(parsed.kind === 'problems' ? parsed.problems.map(formatProblem) : [], [
    /^endpoint\.aether\.io\/port: /,
    /exclude-outbound-ip-ranges\[0\]: /,
  ]);
  t.end();
});
