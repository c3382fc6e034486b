import t from 'tap';
import { ServiceWarner } from '../../src/agent/service-warner.ts';
import { RecordingLog } from '../support/recording-log.ts';
import { exampleServices } from '../support/services.ts';

const views = Object.values(exampleServices());

t.test('check() warns once a service of TCP ports that scoped pods cannot reach', (t) => {
  const log = new RecordingLog();
  const warner = new ServiceWarner(log);
  warner.check(views, { hasScopedPod: false, tcp: true });
  t.strictSame(log.entries, []);
  for (let i = 0; i < 3; i++) warner.check(views, { hasScopedPod: true, tcp: true });
  t.match(log.entries, [
    { level: 'warn', event: 'agent.service.tcp_not_captured', fields: { service: 'demo/shop', ports: [9000] } },
  ]);
  t.equal(log.entries.length, 1, 'db has only its default port');
  t.end();
});

t.test('check() warns once a service of TCP without identity', (t) => {
  const log = new RecordingLog();
  const warner = new ServiceWarner(log);
  for (let i = 0; i < 3; i++) warner.check(views, { hasScopedPod: true, tcp: false });
  t.match(log.entries.map(({ event, fields }) => [event, fields['service'], fields['ports']]).sort(), [
    ['agent.service.tcp_without_identity', 'demo/db', [5432]],
    ['agent.service.tcp_without_identity', 'demo/shop', [5432, 9000]],
  ]);
  t.end();
});
