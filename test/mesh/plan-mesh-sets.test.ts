// Which addresses and ports the kernel is told of. A plan made from the one before is the plan made anew, over random rounds.
import fc from 'fast-check';
import t from 'tap';
import { type MeshSets, withoutShared } from '../../src/mesh/mesh-sets.ts';
import { planMeshSets } from '../../src/mesh/plan-mesh-sets.ts';
import { exampleServices, makeView } from '../support/services.ts';

const show = (sets: MeshSets) => ({
  tcp: sets.tcp.map((element) => `${element.address.text} . ${element.port}`),
  vip: sets.vip.map((address) => address.text),
  shim: sets.shim.map((address) => address.text),
});

t.test('planMeshSets() tells the kernel what is TCP', (t) => {
  const { shop, db, web, idle } = exampleServices();
  t.same(show(planMeshSets([shop, db, web, idle], { tcp: true })), {
    tcp: [
      '10.96.0.50 . 5432',
      '10.96.0.50 . 9000',
      '10.96.0.50 . 18082',
      '10.96.0.60 . 5432',
      '10.96.0.60 . 18082',
      'fd96::50 . 5432',
      'fd96::50 . 9000',
      'fd96::50 . 18082',
      'fd96::60 . 5432',
      'fd96::60 . 18082',
    ],
    vip: ['10.96.0.50', '10.96.0.51', '10.96.0.60', '10.96.0.70', 'fd96::50', 'fd96::51', 'fd96::60', 'fd96::70'],
    shim: ['10.96.0.60', 'fd96::60'],
  });
  t.end();
});

t.test('planMeshSets() without TCP leaves the addresses, so that 18082 is reset', (t) => {
  const { shop, db } = exampleServices();
  t.same(show(planMeshSets([shop, db], { tcp: false })), {
    tcp: [],
    vip: ['10.96.0.50', '10.96.0.60', 'fd96::50', 'fd96::60'],
    shim: [],
  });
  t.end();
});

// A service with any of these ports, or none, at an address of its number; two of one number claim one address.
const anyService = fc.record({
  number: fc.integer({ min: 1, max: 12 }),
  name: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f'),
  ports: fc.uniqueArray(fc.constantFrom(8080, 5432, 9000, 6379), { maxLength: 3 }),
});
const viewOf = ({ number, name, ports }: typeof anyService extends fc.Arbitrary<infer T> ? T : never) => {
  const typed = Object.fromEntries(ports.map((port) => [port, port === 8080 ? ('http' as const) : ('tcp' as const)]));
  const vips = [`10.96.0.${number}`, `fd96::${number}`];
  const [primary] = ports;
  return makeView(`demo/${name}`, vips, primary === undefined ? [] : [{ ip: '10.1.2.3', primary, ports: typed }]);
};

t.test('planMeshSets() made of the plan before is the plan made anew, however often', (t) => {
  const anyRounds = fc.array(fc.uniqueArray(anyService, { selector: ({ name }) => name, maxLength: 6 }), {
    maxLength: 8,
  });
  fc.assert(
    fc.property(anyRounds, (rounds) => {
      let previous: { services: ReturnType<typeof viewOf>[]; sets: MeshSets } | undefined;
      for (const round of rounds) {
        // Views made anew of the same services, and views that stay.
        const made = round.map(viewOf);
        const kept = (previous?.services ?? []).slice(0, 2);
        const services = [...kept, ...made.filter(({ fqdn }) => !kept.some((view) => view.fqdn === fqdn))];
        const sets = planMeshSets(services, { tcp: true, ...(previous && { previous }) });
        t.strictSame(show(sets), show(planMeshSets(services, { tcp: true })));
        if (previous !== undefined) {
          const [was, is] = [previous.sets, sets];
          t.strictSame(show(withoutShared(is, was)), show(withoutShared({ ...is }, was)), 'what came is known');
          t.strictSame(show(withoutShared(was, is)), show(withoutShared({ ...was }, is)), 'and what went');
        }
        previous = { services, sets };
      }
    }),
    { numRuns: 300 },
  );
  t.end();
});
