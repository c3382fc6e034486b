// A virtual host is named twice, in itself and as a resource: Envoy takes it away by the latter, so they must be one.
import { fromBinary } from '@bufbuild/protobuf';
import t from 'tap';
import { VirtualHostSchema } from '../../src/gen/envoy/config/route/v3/route_components_pb.js';
import { encodeHost } from '../../src/xds/encode-resource.ts';
import { captureHosts, outboundHosts, routeShape } from '../../src/xds/virtual-hosts.ts';
import { exampleServices } from '../support/services.ts';
import { hash } from '../support/xds-example.ts';

const shapes = Object.values(exampleServices()).map(routeShape);

t.test("encodeHost() names a host as its resource: Envoy takes it away by the resource's name", (t) => {
  for (const host of shapes.flatMap((shape) => [...captureHosts(shape), ...outboundHosts(shape)])) {
    const { kind, name, bytes } = encodeHost(host, hash);
    t.same([kind, name], ['host', fromBinary(VirtualHostSchema, bytes).name]);
    t.match(name, /^(cap|out)_http\/[a-z.:0-9]+$/, 'its table, a slash, and no other slash');
  }
  t.end();
});
