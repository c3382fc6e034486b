// Services that the real Envoy would refuse, or refuse a whole table for: with them beside it the good one goes on working.
import t from 'tap';
import type { ServiceView } from '../../src/mesh/service-view.ts';
import { buildFitSnapshot } from '../../src/xds/build-fit-snapshot.ts';
import { buildSnapshot } from '../../src/xds/build-snapshot.ts';
import { makeView } from '../support/services.ts';
import { EXAMPLE_NODE, hash } from '../support/xds-example.ts';
import { startXdsNode } from '../support/xds-node.ts';

const SHOP = 'shop.demo.aether.internal';
const endpoint = { ip: '10.1.2.3', primary: 8080, ports: { 8080: 'http', 9000: 'tcp' } } as const;

/** Each with what Envoy says of it alone; undefined: it takes it, and something else goes wrong. */
const BAD: readonly (readonly [string, ServiceView, RegExp | undefined])[] = [
  ['a name of 300 bytes', makeView(`demo/${'a'.repeat(300)}`, ['10.96.0.91'], [endpoint]), undefined],
  ['the same name in capitals', makeView('demo/Shop', ['10.96.0.92'], [endpoint]), /Duplicate entry of domain/],
  ['a line break in its name', makeView('demo/x\ny', ['10.96.0.93'], [endpoint]), /Domains\[0\]/],
  ['an endpoint that is no address', makeView('demo/lost', ['10.96.0.94'], [{ ...endpoint, ip: 'x' }]), /malformed IP/],
  ['an address that another one has', makeView('demo/thief', ['10.96.0.50'], [endpoint]), undefined],
  ['a port that is none', makeView('demo/far', [], [{ ...endpoint, ports: { 70000: 'http' } }]), undefined],
];

t.test('bad services in the real Envoy', async (t) => {
  const node = await startXdsNode(t);
  const client = node.addPod('client-0', 'client', { port: '8080' });
  const pod = node.addPod('shop-0', 'shop', { port: '8080', ports: '8080,9000=tcp' });
  await node.startApp(pod, 'http=8080', 'echo=9000');
  const shop = makeView('demo/shop', ['10.96.0.50'], [{ ...endpoint, ip: pod.ip4 }]);
  const works = async (title: string): Promise<void> => {
    const [http] = await node.http(client, { http: { host: '10.96.0.50', port: 80, authority: SHOP } });
    t.equal(http?.status, 200, `${title}: HTTP`);
    t.match(await node.tcp(client, { tcp: { host: '10.96.0.50', port: 9000 }, send: 'x' }), { got: 'shop-0:9000 x' });
  };
  await node.publish([client, pod], { node: EXAMPLE_NODE, services: [shop] });
  await works('alone');

  for (const [title, bad, refusal] of BAD) {
    const services = [shop, bad];
    if (refusal !== undefined) {
      // What it would do: the negative control.
      const { cache } = node;
      const spoilt = { node: EXAMPLE_NODE, services, pods: [client.pod, pod.pod], certificates: [] };
      const snapshot = buildSnapshot(spoilt, { hash });
      cache.publish(snapshot);
      await t.rejects(node.settle(snapshot), { message: refusal }, `${title}: Envoy refuses it`);
    }
    let leftOut: readonly string[] = [];
    await node.publish([client, pod], { node: EXAMPLE_NODE, services }, (snapshot) => {
      const input = { node: EXAMPLE_NODE, services, pods: [client.pod, pod.pod], certificates: [] };
      const fit = buildFitSnapshot(input, { hash, previous: snapshot });
      leftOut = fit.leftOut.map(({ name }) => name);
      const secret = snapshot.resources.secret;
      return { ...fit.snapshot, resources: { ...fit.snapshot.resources, secret } };
    });
    t.strictSame(leftOut, [`${bad.key.namespace}/${bad.key.serviceAccount}`], title);
    await works(title);
  }
});
