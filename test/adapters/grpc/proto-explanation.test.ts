// Real explanations, of what is served, refused, unknown and foreign, through the bytes of the answer on admin.sock and
// back: nothing is lost.
import { fromBinary, toBinary } from '@bufbuild/protobuf';
import t from 'tap';
import { explanationFromMessage, explanationToMessage } from '../../../src/adapters/grpc/proto-explanation.ts';
import { explainDestination } from '../../../src/agent/explain.ts';
import { ExplainResponseSchema } from '../../../src/gen/aether/admin/v1/admin_pb.js';
import { exampleServices, makeView } from '../../support/services.ts';

const tired = makeView(
  'demo/tired',
  ['10.96.0.90'],
  (['draining', 'unhealthy', 'unspecified', 'healthy'] as const).map((health, index) => ({
    ...{ ip: `10.1.3.${index}`, primary: 8080, ports: { 8080: 'http' as const } },
    overrides: { health },
  })),
);

t.test('an explanation arrives as it was', (t) => {
  const pod = {
    ...{ namespace: 'demo', name: 'client-0', resourceName: 'demo_client-0' },
    policy: { redirectAll: true, excludePorts: [], excludeRanges: [] },
  };
  const node = { meshDomain: 'aether.internal', trustDomain: 'aether.internal', identity: 'mtls' } as const;
  const services = [...Object.values(exampleServices()), tired];
  for (const destination of [
    'http://tired.demo.aether.internal/',
    'shop.demo.aether.internal:9000',
    'http://db.demo.aether.internal/',
    'ghost.demo.aether.internal:1',
    'https://example.com/',
  ]) {
    const sent = explainDestination(destination, pod, { node, services, problems: ['one'] });
    const bytes = toBinary(ExplainResponseSchema, explanationToMessage(sent));
    t.strictSame(explanationFromMessage(fromBinary(ExplainResponseSchema, bytes)), sent, destination);
  }
  t.end();
});
