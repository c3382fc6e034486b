// Addresses worked out from what came and went must be those that planVips() works out from all: random services over time.
import assert from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import { changeVips } from '../../src/agent/change-vips.ts';
import { planVips, VIP_QUARANTINE_MS, type VipLease } from '../../src/agent/vip-allocator.ts';
import { type IpAddress, parseIpRange } from '../../src/core/ip.ts';
import { makeIp } from '../support/services.ts';

const RANGES = ['10.9.0.0/28', 'fd0a:e7e0::/124'].flatMap((text) => parseIpRange(text) ?? []);
const NAMES = Array.from({ length: 12 }, (_, index) => `demo/s${index}`);

t.test('changeVips() gives what planVips() gives, wherever it gives something', (t) => {
  const anyStep = fc.record({ wanted: fc.subarray(NAMES), passMs: fc.constantFrom(1000, VIP_QUARANTINE_MS) });
  const anyPins = fc.option(fc.constant(new Map<string, readonly IpAddress[]>([['demo/s3', [makeIp('10.9.0.5')]]])), {
    nil: new Map(),
  });
  let [given, refused] = [0, 0];
  fc.assert(
    fc.property(anyPins, fc.array(anyStep, { minLength: 2, maxLength: 8 }), (pins, steps) => {
      let leases: readonly VipLease[] = [];
      let before: ReadonlyMap<string, readonly IpAddress[]> = new Map();
      let [nowMs, isShort] = [0, true];
      for (const { wanted, passMs } of steps) {
        nowMs += passMs;
        const services = new Set([...wanted, ...pins.keys()]);
        const plan = planVips(leases, { services, pins, ranges: RANGES, nowMs });
        const come = new Set([...services].filter((name) => !before.has(name)));
        const gone = new Map([...before].filter(([name]) => !services.has(name)));
        const changed = isShort ? undefined : changeVips(leases, { come, gone, pins, ranges: RANGES, nowMs });
        if (changed === undefined) refused++;
        else {
          given++;
          assert.deepEqual(changed.leases, plan.leases);
          assert.deepEqual(changed.addresses, new Map([...plan.addresses].filter(([name]) => come.has(name))));
          assert.deepEqual(plan.problems, []);
        }
        [leases, before, isShort] = [plan.leases, plan.addresses, plan.problems.length > 0];
      }
    }),
    { numRuns: 300 },
  );
  t.ok(given > 200, `${given} given, ${refused} left to planVips()`);
  t.end();
});

t.test('changeVips() leaves to planVips()', (t) => {
  const services = new Set(NAMES.slice(0, 2));
  const [pins, ranges, nowMs] = [new Map([['demo/s9', [makeIp('10.9.0.5')]]]), RANGES, 0];
  const { leases } = planVips([], { services, pins, ranges, nowMs });
  const [nobody, none] = [new Set<string>(), new Map<string, readonly IpAddress[]>()];
  t.test('a service whose address is fixed', (t) => {
    t.equal(changeVips(leases, { come: new Set(['demo/s9']), gone: none, pins, ranges, nowMs }), undefined);
    t.equal(changeVips(leases, { come: nobody, gone: new Map([['demo/s9', []]]), pins, ranges, nowMs }), undefined);
    t.end();
  });
  t.test('more services than there are addresses', (t) => {
    const come = new Set(Array.from({ length: 20 }, (_, index) => `demo/more-${index}`));
    t.equal(changeVips(leases, { come, gone: none, pins, ranges, nowMs }), undefined);
    t.end();
  });
  t.end();
});

t.test('changeVips() looks at nobody else', (t) => {
  const services = new Set(NAMES);
  const [pins, ranges, nowMs] = [new Map<string, readonly IpAddress[]>(), RANGES, 0];
  const { leases, addresses } = planVips([], { services, pins, ranges, nowMs });
  const gone = new Map([['demo/s1', addresses.get('demo/s1') ?? []]]);
  const changed = changeVips(leases, { come: new Set(), gone, pins, ranges, nowMs });
  const others = leases.filter(({ service }) => service !== 'demo/s1');
  t.ok(
    others.every((lease) => changed?.leases.includes(lease)),
    'the same objects',
  );
  t.end();
});
