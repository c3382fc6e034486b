// TCP clusters that the real Envoy fetches at the first dial.
import t from 'tap';
import { nftIn } from '../support/netns.ts';
import { makeView } from '../support/services.ts';
import { EXAMPLE_NODE } from '../support/xds-example.ts';
import { startXdsNode } from '../support/xds-node.ts';

const VIP = '10.96.0.50';

t.test('on-demand TCP clusters in the real Envoy', async (t) => {
  const mesh = await startXdsNode(t);
  const client = mesh.addPod('client-0', 'client', { port: '8080' });
  const db = mesh.addPod('db-0', 'db', { port: '5432', ports: '5432=tcp,9000=tcp' });
  await mesh.startApp(db, 'banner=5432', 'echo=9000');
  const service = makeView('demo/db', [VIP], [{ ip: db.ip4, primary: 5432, ports: { 5432: 'tcp', 9000: 'tcp' } }]);
  const node = { ...EXAMPLE_NODE, onDemandTcp: true };
  const tcpClusters = async () =>
    [...(await mesh.admin('/clusters')).matchAll(/^(tcp:[^:]+:[0-9]+)::added_via_api/gm)]
      .map(([, name]) => name)
      .sort();
  const dial = (port: number, send = '') => mesh.tcp(client, { tcp: { host: VIP, port }, send, waitMs: 15_000 });

  const snapshot = await mesh.publish([client, db], { node, services: [service] });
  t.ok(snapshot.resources.cluster.get(`tcp:${VIP}:5432`)?.isOnDemand);
  t.notOk(snapshot.resources.cluster.get('blackhole')?.isOnDemand);
  t.strictSame(await tcpClusters(), [], 'Envoy has none');

  const first = await dial(5432);
  t.match(first, { got: /^HELLO from db-0:5432/ }, 'a server that speaks first, at the first dial');
  t.equal(await mesh.inspectorTimeouts(), 0);
  const second = await dial(5432);
  t.match(second, { got: /^HELLO from db-0:5432/ });
  t.comment(`first dial ${first.ms.toFixed(1)} ms, second ${second.ms.toFixed(1)} ms`);
  t.strictSame(await tcpClusters(), [`tcp:${VIP}:5432`], 'Envoy has what was dialled');
  t.match(await dial(9000, 'x'), { got: 'db-0:9000 x' });
  t.match(await dial(9999, '\u0000\u0001raw'), { got: /^HELLO from db-0:5432/ }, 'the shim fetches the default');

  nftIn(client.netns, 'add', 'element', 'inet', 'aether_mesh', 'mesh_tcp4', `{ ${VIP} . 7777 }`);
  const unknown = await dial(7777, 'x');
  t.match(unknown, { got: '', error: /closed|ECONNRESET/ });
  t.equal(await mesh.total('on_demand_cluster_missing'), 1, 'the agent says that it never was');
  t.equal(await mesh.total('on_demand_cluster_timeout'), 0);

  await t.test('a name that was withdrawn is closed when the time is over', async (t) => {
    // As a dial between the kernel's change and Envoy's: the rules still send it.
    const gone = await mesh.publish([client, db], { node, services: [] }, (built) => ({
      ...built,
      meshSets: snapshot.meshSets,
      resources: {
        ...built.resources,
        cluster: new Map([...built.resources.cluster, ...listTcp(snapshot)]),
        endpoints: snapshot.resources.endpoints,
      },
    }));
    mesh.cache.publish({ ...gone, resources: { ...gone.resources, cluster: withoutTcp(gone) } });
    await mesh.settle(gone).catch(() => {});
    for (const port of [5432, 9000, 18082]) {
      const { got, error } = await dial(port, 'x');
      t.match([got, error], ['', /closed|ECONNRESET/], String(port));
    }
    t.equal(await mesh.total('on_demand_cluster_timeout'), 3);
  });

  await mesh.publish([client, db], { node, services: [service] });
  t.match(await dial(5432), { got: /^HELLO from db-0:5432/ }, 'published again, it is there again');
});

type Snapshot = Parameters<Parameters<Awaited<ReturnType<typeof startXdsNode>>['publish']>[2] & object>[0];

const isTcp = (name: string): boolean => name.startsWith('tcp:');
const listTcp = ({ resources }: Snapshot) => [...resources.cluster].filter(([name]) => isTcp(name));
const withoutTcp = ({ resources }: Snapshot) => new Map([...resources.cluster].filter(([name]) => !isTcp(name)));
