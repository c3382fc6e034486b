import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import t from 'tap';
import { RouteConfigurationSchema } from '../../src/gen/envoy/config/route/v3/route_pb.js';
import { encodeHosts, encodeRoutes } from '../../src/xds/encode-resource.ts';
import { routesFacts } from '../../src/xds/resource-facts.ts';
import { buildCaptureRoutes, buildOutboundRoutes } from '../../src/xds/routes.ts';
import { captureHosts, outboundHosts, routeShape } from '../../src/xds/virtual-hosts.ts';
import { exampleServices } from '../support/services.ts';
import { hash } from '../support/xds-example.ts';

const shapes = Object.values(exampleServices()).map(routeShape);

for (const [title, table, hosts] of [
  ['cap_http', buildCaptureRoutes('aether.internal'), shapes.map(captureHosts)],
  ['out_http', buildOutboundRoutes('aether.internal'), shapes.map(outboundHosts)],
  ['a table without services', buildCaptureRoutes('aether.internal'), []],
] as const) {
  t.test(`encodeRoutes() puts together what encoding the whole would give: ${title}`, (t) => {
    const virtualHosts = [...hosts.flat(), ...table.virtualHosts];
    const whole = toBinary(RouteConfigurationSchema, create(RouteConfigurationSchema, { ...table, virtualHosts }));
    const resource = encodeRoutes(table, hosts.map(encodeHosts), hash);
    t.strictSame([...resource.bytes], [...whole]);
    t.equal(resource.version, hash(whole));
    t.strictSame(
      fromBinary(RouteConfigurationSchema, resource.bytes).virtualHosts.map(({ name }) => name),
      virtualHosts.map(({ name }) => name),
    );
    const { parts: _, ...unparted } = resource;
    t.strictSame(routesFacts(resource), routesFacts(unparted), 'read in pieces or as a whole');
    t.end();
  });
}
