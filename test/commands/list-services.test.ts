// `aether-cni services` to the letter: which port is the default, and how many endpoints are healthy of all.
import { create } from '@bufbuild/protobuf';
import t from 'tap';
import { formatServices } from '../../src/commands/list-services.ts';
import { ListServicesResponseSchema } from '../../src/gen/aether/admin/v1/admin_pb.js';
import { Service_Protocol, ServiceEndpoint_Health } from '../../src/gen/aether/registry/v1/service_pb.js';

const { HTTP, TCP } = Service_Protocol;
const { HEALTHY, UNHEALTHY, DRAINING, HEALTH_UNSPECIFIED } = ServiceEndpoint_Health;

t.test('formatServices() marks the default of each protocol and counts who is well', async (t) => {
  const response = create(ListServicesResponseSchema, {
    services: [
      {
        ...{ key: 'demo/shop', fqdn: 'shop.demo.aether.internal', addresses: ['10.254.0.2', 'fd0a::2'] },
        ports: [
          { number: 8080, protocol: HTTP },
          { number: 9000, protocol: TCP },
          { number: 9090, protocol: HTTP },
        ],
        ...{ defaultHttpPort: 8080, defaultTcpPort: 9000 },
        endpoints: [HEALTHY, UNHEALTHY, DRAINING, HEALTH_UNSPECIFIED].map((health, i) => ({
          ip: `10.1.2.${i}`,
          health,
        })),
      },
      { key: 'demo/gone', fqdn: 'gone.demo.aether.internal' },
    ],
  });
  t.equal(
    formatServices(response),
    [
      'SERVICE    ADDRESSES           PORTS                           HEALTHY  NAME',
      'demo/shop  10.254.0.2,fd0a::2  8080/http*,9000/tcp*,9090/http  2/4      shop.demo.aether.internal',
      'demo/gone  -                   -                               0/0      gone.demo.aether.internal',
      '',
    ].join('\n'),
  );
});
