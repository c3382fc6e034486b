// Envoy must not reach a listener of its own through a pod's loopback: the clusters say so, and in the real Envoy and kernel a
// request for such a port ends.
import t from 'tap';
import { buildPodClusters } from '../../src/xds/pod-clusters.ts';
import { makeView } from '../support/services.ts';
import { EXAMPLE_NODE, makePod } from '../support/xds-example.ts';
import { startXdsNode } from '../support/xds-node.ts';

t.test('buildPodClusters() reaches an application, but never a listener of the mesh on its loopback', (t) => {
  const pod = makePod('odd-0', 'odd', { port: '18081', ports: '18001,18004,18008,18082,8080' });
  const reached = buildPodClusters(pod, EXAMPLE_NODE)
    .filter(({ name, loadAssignment }) => name.startsWith('app_') && loadAssignment !== undefined)
    .map(({ name }) => name);
  t.strictSame(reached, ['app_demo_odd-0_8080', 'app_demo_odd-0_18082']);
  t.end();
});

t.test('HTTP for port 18081 of a pod fails, and does not go round in circles', async (t) => {
  const node = await startXdsNode(t);
  const client = node.addPod('client-0', 'client', { port: '8080' });
  const shop = node.addPod('shop-0', 'shop', { port: '18081' });
  const view = makeView('demo/shop', ['10.96.0.50'], [{ ip: shop.ip4, primary: 18081, ports: { 18081: 'http' } }]);
  await node.publish([client, shop], { node: EXAMPLE_NODE, services: [view] });
  const [answer] = await node.http(client, {
    http: { host: '10.96.0.50', port: 80, authority: 'shop.demo.aether.internal' },
  });
  t.equal(answer?.status, 503);
  const requests = await node.counter('http.inbound.downstream_rq_total');
  t.ok(requests >= 1 && requests <= 3, `once, and at most two retries: ${requests}`);
});
