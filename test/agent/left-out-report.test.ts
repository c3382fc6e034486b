// What the log says of a service that Envoy is not given: a line for each change, none for a state that stays.
import t from 'tap';
import { LeftOutReport } from '../../src/agent/left-out-report.ts';
import type { LeftOut } from '../../src/xds/build-fit-snapshot.ts';
import { RecordingLog } from '../support/recording-log.ts';

const bad = (message: string): LeftOut => ({
  kind: 'service',
  name: 'demo/bad',
  problems: [{ path: 'addresses', message }],
});

t.test('LeftOutReport says once that something is left out, and once that it is back', (t) => {
  const log = new RecordingLog();
  const report = new LeftOutReport(log);
  for (const list of [[], [bad('twice')], [bad('twice')], [bad('thrice')], [], []]) report.take(list);
  t.match(log.entries, [
    { level: 'error', event: 'agent.service.left_out', fields: { service: 'demo/bad', reason: 'addresses: twice' } },
    { level: 'error', event: 'agent.service.left_out', fields: { reason: 'addresses: thrice' } },
    { level: 'info', event: 'agent.service.taken_in', fields: { service: 'demo/bad' } },
  ]);
  t.equal(log.entries.length, 3);
  t.same(report.list, []);
  t.end();
});
