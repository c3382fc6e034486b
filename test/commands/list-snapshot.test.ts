// `aether-cni snapshot` as text and as Envoy's JSON: no secret is shown, even if an agent should send one.
import { create, toBinary } from '@bufbuild/protobuf';
import t from 'tap';
import { formatSnapshot, formatSnapshotJson } from '../../src/commands/list-snapshot.ts';
import { GetSnapshotResponseSchema } from '../../src/gen/aether/admin/v1/admin_pb.js';
import { ClusterSchema } from '../../src/gen/envoy/config/cluster/v3/cluster_pb.js';

const CLUSTER = 'type.googleapis.com/envoy.config.cluster.v3.Cluster';
const LISTENER = 'type.googleapis.com/envoy.config.listener.v3.Listener';
const SECRET = 'type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret';
const value = toBinary(ClusterSchema, create(ClusterSchema, { name: 'blackhole' }));

const RESPONSE = create(GetSnapshotResponseSchema, {
  resources: [
    { name: 'blackhole', version: 'a1', resource: { typeUrl: CLUSTER, value }, acknowledged: true },
    { name: 'inbound_demo_shop-0', version: 'b2', resource: { typeUrl: LISTENER }, rejected: 'cannot bind:\nin use' },
    { name: 'capture_demo_shop-0', version: 'c3', resource: { typeUrl: LISTENER } },
  ],
});

t.test('formatSnapshot() says where each resource stands', async (t) => {
  t.equal(
    formatSnapshot(RESPONSE),
    [
      'KIND      VERSION  ENVOY                         NAME',
      'cluster   a1       has it                        blackhole',
      'listener  b2       refused: cannot bind: in use  inbound_demo_shop-0',
      'listener  c3       waiting                       capture_demo_shop-0',
      '',
    ].join('\n'),
  );
});

t.test('formatSnapshotJson() has Envoy’s own JSON', async (t) => {
  t.match(JSON.parse(formatSnapshotJson(RESPONSE)), {
    resources: [
      {
        kind: 'cluster',
        name: 'blackhole',
        version: 'a1',
        acknowledged: true,
        rejected: '',
        resource: { name: 'blackhole' },
      },
      { kind: 'listener', acknowledged: false, rejected: 'cannot bind:\nin use' },
      { kind: 'listener', acknowledged: false },
    ],
  });
});

t.test('formatSnapshotJson() shows no secret, whoever sent it, and no kind that it does not know', async (t) => {
  const resources = [SECRET, 'type.googleapis.com/x.y.Z'].map((typeUrl) => ({
    ...{ name: 'n', version: 'v' },
    resource: { typeUrl, value: Buffer.from('a private key') },
  }));
  const text = formatSnapshotJson(create(GetSnapshotResponseSchema, { resources }));
  t.match(JSON.parse(text), { resources: [{ kind: 'secret', resource: null }, { resource: null }] });
});
