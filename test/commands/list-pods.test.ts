// `aether-cni pods` to the letter, made of answers of the agent: no agent runs.
import { create } from '@bufbuild/protobuf';
import t from 'tap';
import { formatPods } from '../../src/commands/list-pods.ts';
import { ListPodsResponseSchema } from '../../src/gen/aether/admin/v1/admin_pb.js';
import { ServiceEndpoint_Health } from '../../src/gen/aether/registry/v1/service_pb.js';

const SHOP = {
  record: {
    ...{ name: 'shop-0', namespace: 'demo', containerId: '0123456789abcdef0123', ips: ['10.1.2.3', 'fd00::3'] },
    annotations: {
      'endpoint.aether.io/ports': '8080,9090=grpc,9000=tcp',
      'capture.aether.io/redirect-all': 'true',
    },
  },
  service: 'demo/shop',
  health: ServiceEndpoint_Health.HEALTHY,
  registered: true,
  proxyReady: true,
};

t.test('formatPods() aligns a line a pod', async (t) => {
  const scoped = { ...SHOP.record.annotations, 'capture.aether.io/redirect-all': 'false' };
  const web = { ...SHOP, record: { ...SHOP.record, name: 'web-long-name-0', annotations: scoped }, proxyReady: false };
  t.equal(
    formatPods(create(ListPodsResponseSchema, { pods: [SHOP, web] })),
    [
      'POD                   SERVICE    IP                PORTS                   CAPTURE  HEALTH   REGISTERED  PROXY      CONTAINER',
      'demo/shop-0           demo/shop  10.1.2.3,fd00::3  8080*,9000=tcp,9090=h2  all      healthy  yes         ready      0123456789abc',
      'demo/web-long-name-0  demo/shop  10.1.2.3,fd00::3  8080*,9000=tcp,9090=h2  scoped   healthy  yes         not ready  0123456789abc',
      '',
    ].join('\n'),
  );
});

t.test('formatPods() says what is wrong below the pod that it is about', async (t) => {
  const problems = ['its rules are not up to date', 'the proxy refused x:\nbad'];
  const lines = formatPods(create(ListPodsResponseSchema, { pods: [{ ...SHOP, problems }, SHOP] })).split('\n');
  t.strictSame(lines.slice(2, 4), ['  problem: its rules are not up to date', '  problem: the proxy refused x: bad']);
  t.match(lines[4], /^demo\/shop-0 /);
});

t.test('formatPods() of a record whose ports do not parse still has its line', async (t) => {
  const record = { ...SHOP.record, annotations: { 'endpoint.aether.io/ports': '9000=quic' } };
  const [, line] = formatPods(create(ListPodsResponseSchema, { pods: [{ ...SHOP, record }] })).split('\n');
  t.match(line, / {2}\? +default {2}/);
});

t.test('formatPods() without pods is its header', async (t) => {
  t.match(formatPods(create(ListPodsResponseSchema)), /^POD {2}SERVICE.*\n$/);
});
