// The rule that an explanation names for a packet, found in the two tables as planned, of which either may decide.
import t from 'tap';
import { findCaptureRule } from '../../src/capture/find-capture-rule.ts';
import { planMeshSets } from '../../src/mesh/plan-mesh-sets.ts';
import { exampleServices, makeIp } from '../support/services.ts';

const sets = planMeshSets(Object.values(exampleServices()), { tcp: true });
const policy = { redirectAll: true, excludePorts: [{ first: 9000, last: 9000 }], excludeRanges: [] };

t.test('findCaptureRule() names the rule that decides, and its table', (t) => {
  const cases: readonly (readonly [string, number, string])[] = [
    ['10.96.0.50', 5432, 'aether_mesh: ip daddr . tcp dport @mesh_tcp4 redirect to :18002'],
    ['fd96::51', 18082, 'aether_mesh: tcp dport 18082 ip6 daddr @mesh_vip6 reject with tcp reset'],
    // What the agent's table accepts, the plugin's decides.
    ['10.96.0.50', 9000, 'aether: tcp dport @exclude_ports accept'],
    ['10.96.0.50', 80, 'aether: meta l4proto tcp redirect to :18001'],
    ['192.0.2.1', 18081, 'aether: tcp dport 18081 redirect to :18001'],
    ['::1', 80, 'aether: ip6 daddr ::1 accept'],
  ];
  for (const [address, port, want] of cases) {
    const packet = { protocol: 'tcp', destination: makeIp(address), port } as const;
    const found = findCaptureRule(packet, { policy, sets });
    t.equal(`${found?.table}: ${found?.rule}`, want, `${address} ${port}`);
  }
  const scoped = { policy: { ...policy, redirectAll: false }, sets };
  t.equal(findCaptureRule({ protocol: 'tcp', destination: makeIp('192.0.2.1'), port: 80 }, scoped), undefined);
  t.end();
});
