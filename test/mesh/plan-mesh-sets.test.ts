import t from 'tap';
import type { MeshSets } from '../../src/mesh/mesh-sets.ts';
import { planMeshSets } from '../../src/mesh/plan-mesh-sets.ts';
import { exampleServices } from '../support/services.ts';

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
