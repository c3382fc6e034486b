// The gateway, put together of pieces, is what building it as one message would give; and it says so of itself.
import { fromBinary, toBinary } from '@bufbuild/protobuf';
import { anyUnpack } from '@bufbuild/protobuf/wkt';
import t from 'tap';
import { ListenerSchema } from '../../src/gen/envoy/config/listener/v3/listener_pb.js';
import { HttpConnectionManagerSchema } from '../../src/gen/envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager_pb.js';
import { HEALTH_GATEWAY } from '../../src/mesh/names.ts';
import { buildSnapshot } from '../../src/xds/build-snapshot.ts';
import { encodeListener } from '../../src/xds/encode-resource.ts';
import { encodeHealthGateway } from '../../src/xds/health.ts';
import { listenerFacts } from '../../src/xds/resource-facts.ts';
import { exampleInput } from '../support/xds-example.ts';

const hash = (bytes: Uint8Array): string => String(bytes.length);

for (const count of [0, 1, 3]) {
  t.test(`the gateway of ${count} pods`, (t) => {
    const pods = exampleInput().pods.slice(0, count);
    const bytes = encodeHealthGateway(pods, '/run/aether/health.sock');
    const listener = fromBinary(ListenerSchema, bytes);
    t.same(Buffer.from(bytes), Buffer.from(toBinary(ListenerSchema, listener)));
    const filter = listener.filterChains[0]?.filters[0]?.configType;
    const manager = filter?.case === 'typedConfig' ? anyUnpack(filter.value, HttpConnectionManagerSchema) : undefined;
    t.strictSame(
      manager?.httpFilters.map(({ name }) => name),
      ['all', ...pods.map(({ resourceName }) => resourceName), 'envoy.filters.http.router'],
    );
    if (filter?.case !== 'typedConfig' || manager === undefined) throw new Error('no manager');
    t.same(Buffer.from(filter.value.value), Buffer.from(toBinary(HttpConnectionManagerSchema, manager)));

    const input = exampleInput({ pods });
    const node = { ...input.node, healthSocket: '/run/aether/health.sock' };
    const known = buildSnapshot({ ...input, node }, { hash }).resources.listener.get(HEALTH_GATEWAY);
    if (known === undefined) throw new Error('no gateway');
    const read = listenerFacts(encodeListener(fromBinary(ListenerSchema, known.bytes), hash));
    const sorted = ({ clusters, ...facts }: typeof read) => ({ ...facts, clusters: [...new Set(clusters)].sort() });
    t.strictSame(sorted(listenerFacts(known)), sorted(read));
    t.end();
  });
}
