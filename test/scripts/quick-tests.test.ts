// What is run before each commit, by name.
import { chdir } from 'node:process';
import t from 'tap';
import { ROOT } from '../../scripts/lab/places.ts';
import { isQuickTest } from '../../scripts/quick-tests.ts';

chdir(ROOT);
t.test('isQuickTest() leaves out what starts an Envoy, also by others, runtimes and kills', async (t) => {
  for (const file of [
    'test/xds/bootstrap.test.ts',
    'test/xds/real-envoy.test.ts',
    'test/agent/real-node.test.ts',
    'test/e2e/mtls.test.ts',
    'test/hostile/faults.test.ts',
    'test/runtimes/cnitool.test.ts',
  ])
    t.equal(isQuickTest(file), false, file);
  for (const file of ['test/agent/pod-life.test.ts', 'test/adapters/kernel/rules.test.ts', 'test/cni/json.test.ts'])
    t.equal(isQuickTest(file), true, file);
});
