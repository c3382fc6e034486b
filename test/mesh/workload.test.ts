// A pod's record as one value, or everything that is wrong with it; its ports have port-protocols.test.ts.
import t from 'tap';
import { formatProblems } from '../../src/core/problems.ts';
import { type PodRecord, parseWorkload } from '../../src/mesh/workload.ts';

const record = (more: Partial<PodRecord> = {}): PodRecord => ({
  name: 'shop-0',
  namespace: 'demo',
  networkNamespace: '/run/aether/netns/c1',
  containerId: 'c1',
  ips: ['10.1.2.3', 'fd00::3'],
  labels: {},
  annotations: {},
  serviceAccount: 'shop',
  terminating: false,
  uid: 'u1',
  ...more,
});

t.test('parseWorkload() reads a whole pod', (t) => {
  const parsed = parseWorkload(
    record({
      annotations: {
        'endpoint.aether.io/ports': '9000=tcp',
        'endpoint.aether.io/weight': '7',
        'endpoint.aether.io/health-check-mode': 'active',
        'endpoint.aether.io/health-path': '/ok',
        'metadata.endpoint.aether.io/track': 'canary',
        'config.aether.io/upstreams': ' db, other/api ,db',
      },
    }),
  );
  if (parsed.kind === 'problems') return t.fail(formatProblems(parsed.problems));
  const { value } = parsed;
  t.same(value.service, { namespace: 'demo', serviceAccount: 'shop' });
  t.same(
    value.ips.map((ip) => ip.text),
    ['10.1.2.3', 'fd00::3'],
  );
  t.equal(value.weight, 7);
  t.equal(value.healthCheckMode, 'active');
  t.equal(value.healthPath, '/ok');
  t.same(value.metadata, { track: 'canary' });
  t.same(
    value.upstreams.map((key) => `${key.namespace}/${key.serviceAccount}`),
    ['demo/db', 'other/api'],
  );
  return t.end();
});

t.test('K009 parseWorkload() takes a pod without addresses, and says what that means', async (t) => {
  const parsed = parseWorkload(record({ ips: [] }));
  t.match(parsed, { kind: 'value', value: { ips: [] }, warnings: [{ path: 'ips', message: /nobody is sent to it/ }] });
});

t.test('parseWorkload() takes an unknown health check mode for "eds", with a word', async (t) => {
  const mode = (text: string) =>
    parseWorkload(record({ annotations: { 'endpoint.aether.io/health-check-mode': text } }));
  const path = 'endpoint.aether.io/health-check-mode';
  t.match(mode('Active'), { value: { healthCheckMode: 'eds' }, warnings: [{ path, message: /got "Active"/ }] });
  t.match(mode('eds'), { value: { healthCheckMode: 'eds' }, warnings: [] });
  t.match(mode('active'), { value: { healthCheckMode: 'active' }, warnings: [] });
});

t.test('parseWorkload() rejects, naming every problem', (t) => {
  const cases: readonly [string, Partial<PodRecord>, RegExp][] = [
    ['no address at all among bad ones', { ips: ['x'] }, /^ips\[0\]: must be an IP address, got "x"$/],
    ['a namespace that would break a host name', { namespace: 'a.b' }, /^namespace: must be a DNS label/],
    ['a service account with a slash', { serviceAccount: 'a/b' }, /^serviceAccount: must be a DNS label/],
    ['a pod name with a newline', { name: 'a\nb' }, /^name: must be a DNS name/],
    ['a dotted upstream', { annotations: { 'config.aether.io/upstreams': 'svc.ns' } }, /upstreams\[0\]: must be/],
    ['weight zero', { annotations: { 'endpoint.aether.io/weight': '0' } }, /weight: must be a number from 1/],
    ['reserved metadata', { annotations: { 'metadata.endpoint.aether.io/ip': 'x' } }, /"ip" is reserved/],
    ['a health path with a blank', { annotations: { 'endpoint.aether.io/health-path': '/a b' } }, /health-path: must/],
    [
      'several things',
      { ips: ['x'], namespace: '', annotations: { 'endpoint.aether.io/ports': '0', 'endpoint.aether.io/weight': 'x' } },
      /namespace: .*ports\[0\]: .*ips\[0\]: .*weight: /,
    ],
  ];
  for (const [name, more, want] of cases) {
    const parsed = parseWorkload(record(more));
    t.match(parsed.kind === 'problems' ? formatProblems(parsed.problems) : 'accepted', want, name);
  }
  t.end();
});
