// An address of a service follows from its key and stays; given back, it waits a day for its own service. Fixed ones go
// first, and no order of events gives one address twice.
import fc from 'fast-check';
import t from 'tap';
import {
  countVips,
  planVips,
  planVipsInSteps,
  VIP_QUARANTINE_MS,
  type VipLease,
  type VipPlan,
} from '../../src/agent/vip-allocator.ts';
import { type IpAddress, isInRange, parseIpRange, rangeBounds } from '../../src/core/ip.ts';
import { makeIp } from '../support/services.ts';

const range = (text: string) => {
  const parsed = parseIpRange(text);
  if (parsed === undefined) throw new Error(`no range: ${text}`);
  return parsed;
};
const DEFAULT_RANGES = [range('10.254.0.0/16'), range('fd0a:e7e0::/112')];
const NO_PINS = new Map<string, readonly IpAddress[]>();

interface Step {
  readonly services: readonly string[];
  readonly pins?: Readonly<Record<string, readonly string[]>>;
  readonly ranges?: readonly string[];
  readonly nowMs?: number;
}

function plan(leases: readonly VipLease[], step: Step): VipPlan {
  const pins = new Map(Object.entries(step.pins ?? {}).map(([key, texts]) => [key, texts.map(makeIp)]));
  return planVips(leases, {
    services: new Set(step.services),
    pins,
    ranges: step.ranges?.map(range) ?? DEFAULT_RANGES,
    nowMs: step.nowMs ?? 0,
  });
}

const show = (result: VipPlan): Record<string, string[]> =>
  Object.fromEntries([...result.addresses].map(([key, own]) => [key, own.map((address) => address.text)]));

t.test('planVips() gives each service one address of each family, chosen by its key', (t) => {
  const first = plan([], { services: ['demo/shop', 'demo/db'] });
  for (const own of first.addresses.values()) {
    t.strictSame(
      own.map((address) => address.family),
      [4, 6],
    );
    for (const [i, address] of own.entries()) t.ok(isInRange(address, DEFAULT_RANGES[i] ?? range('0.0.0.0/0')));
  }
  t.strictSame(show(plan([], { services: ['demo/db'] }))['demo/db'], show(first)['demo/db'], 'whoever else is there');
  t.strictSame(show(plan(first.leases, { services: ['demo/db', 'demo/shop'] })), show(first), 'and stays');
  t.end();
});

t.test('planVips() keeps an address a day for the service that gave it back', (t) => {
  const ranges = ['10.9.0.0/29'];
  const full = plan([], { ranges, services: ['a/1', 'a/2', 'a/3', 'a/4', 'a/5'] });
  t.equal(new Set(full.leases.map((lease) => lease.address.text)).size, 5);
  const left = plan(full.leases, { ranges, services: ['a/1', 'a/2', 'a/3', 'a/4'], nowMs: 1000 });
  const early = plan(left.leases, {
    ranges,
    services: ['a/1', 'a/2', 'a/3', 'a/4', 'b/new'],
    nowMs: 1000 + VIP_QUARANTINE_MS - 1,
  });
  t.strictSame(show(early)['b/new'], [], 'within the day nobody else gets it');
  t.match(early.problems, [/10\.9\.0\.0\/29 is used up: no IPv4 address for b\/new/]);
  const back = plan(left.leases, { ranges, services: ['a/1', 'a/2', 'a/3', 'a/4', 'a/5'], nowMs: 5000 });
  t.strictSame(show(back), show(full), 'its own service gets it back');
  const late = plan(left.leases, {
    ranges,
    services: ['a/1', 'a/2', 'a/3', 'a/4', 'b/new'],
    nowMs: 1000 + VIP_QUARANTINE_MS,
  });
  t.strictSame(show(late)['b/new'], show(full)['a/5'], 'after it, another service does');
  t.strictSame(late.problems, []);
  t.end();
});

t.test('planVips() does not restart the day of an address that was released before', (t) => {
  const one = plan([], { services: ['demo/shop'] });
  const released = plan(one.leases, { services: [], nowMs: 1000 });
  const again = plan(released.leases, { services: [], nowMs: 2000 });
  t.strictSame(
    again.leases.map((lease) => lease.releasedAtMs),
    [1000, 1000],
  );
  t.strictSame(plan(again.leases, { services: [], nowMs: 1000 + VIP_QUARANTINE_MS }).leases, []);
  t.end();
});

t.test('planVips() pins', (t) => {
  const free = plan([], { services: ['demo/shop', 'demo/db'] });
  const shop4 = free.addresses.get('demo/shop')?.[0]?.text ?? '';
  const shop6 = free.addresses.get('demo/shop')?.[1]?.text ?? '';
  t.strictSame(
    show(plan(free.leases, { services: ['demo/shop'], pins: { 'demo/shop': ['10.96.0.50'] } })),
    { 'demo/shop': ['10.96.0.50', shop6] },
    'the fixed address replaces the one of its family',
  );
  const taken = plan(free.leases, { services: ['demo/shop', 'demo/db'], pins: { 'demo/db': [shop4] } });
  t.equal(taken.addresses.get('demo/db')?.[0]?.text, shop4, 'a fixed address is taken from who had it');
  t.not(taken.addresses.get('demo/shop')?.[0]?.text, shop4);
  t.equal(taken.addresses.get('demo/shop')?.length, 2);
  const many = plan([], { services: ['demo/shop'], pins: { 'demo/shop': ['fd96::50', '10.96.0.51', '10.96.0.50'] } });
  t.strictSame(show(many), { 'demo/shop': ['10.96.0.50', '10.96.0.51', 'fd96::50'] });
  const unpinned = plan(many.leases, { services: ['demo/shop'] });
  t.notOk(show(unpinned)['demo/shop']?.includes('10.96.0.50'), 'outside the range it is not kept without the pin');
  t.equal(unpinned.leases.filter((lease) => lease.releasedAtMs !== undefined).length, 3);
  const reserved = plan([], {
    services: ['demo/db'],
    pins: { 'demo/idle': [free.addresses.get('demo/db')?.[0]?.text ?? ''] },
  });
  t.not(
    show(reserved)['demo/db']?.[0],
    show(free)['demo/db']?.[0],
    'an address fixed for an absent service is not given',
  );
  t.end();
});

t.test('planVips() leaves a range that is no longer configured', (t) => {
  const before = plan([], { services: ['demo/shop'] });
  const after = plan(before.leases, { services: ['demo/shop'], ranges: ['10.20.0.0/16'] });
  t.match(show(after)['demo/shop'], [/^10\.20\./]);
  t.equal(after.addresses.get('demo/shop')?.length, 1);
  t.end();
});

t.test('countVips() leaves out network, first and last address', (t) => {
  const cases = [
    ['10.0.0.0/29', 5n],
    ['10.0.0.0/30', 1n],
    ['10.0.0.0/31', 0n],
    ['10.0.0.0/32', 0n],
    ['fd00::/112', 65533n],
  ] as const;
  for (const [text, want] of cases) t.equal(countVips(range(text)), want, text);
  t.end();
});

t.test('planVips() never gives one address twice, nor one at the edge of its range, and repeats itself', (t) => {
  const edge = range('10.9.0.0/28');
  const bounds = rangeBounds(edge);
  const keys = fc.uniqueArray(
    fc.integer({ min: 0, max: 30 }).map((n) => `demo/s${n}`),
    { maxLength: 13 },
  );
  fc.assert(
    fc.property(fc.array(fc.tuple(keys, fc.nat({ max: VIP_QUARANTINE_MS })), { maxLength: 8 }), (steps) => {
      let leases: readonly VipLease[] = [];
      let nowMs = 0;
      for (const [services, passed] of steps) {
        nowMs += passed;
        const request = { services: new Set(services), pins: NO_PINS, ranges: [edge], nowMs };
        const result = planVips(leases, request);
        const given = [...result.addresses.values()].flat();
        if (new Set(given.map((address) => address.text)).size !== given.length) return false;
        const last = given.map((address) => address.bytes[3] ?? -1);
        if (last.some((byte) => byte <= (bounds.first[3] ?? 0) + 1 || byte >= (bounds.last[3] ?? 0))) return false;
        for (const lease of leases) {
          const now = result.leases.find((other) => other.address.text === lease.address.text);
          const isYoung = lease.releasedAtMs === undefined || lease.releasedAtMs + VIP_QUARANTINE_MS > nowMs;
          if (isYoung && now?.service !== lease.service) return false;
        }
        if (JSON.stringify(planVips([...leases].reverse(), request)) !== JSON.stringify(result)) return false;
        leases = result.leases;
      }
      return true;
    }),
  );
  t.end();
});

t.test('planVipsInSteps() can be left alone after each service', (t) => {
  const services = new Set(Array.from({ length: 50 }, (_, number) => `demo/s${number}`));
  const request = { services, pins: NO_PINS, ranges: DEFAULT_RANGES, nowMs: 0 };
  const steps = planVipsInSteps([], request);
  let count = 0;
  let step = steps.next();
  for (; !step.done; step = steps.next()) count += 1;
  t.ok(count >= services.size, `${count} steps`);
  t.strictSame(step.value, planVips([], request));
  t.end();
});
