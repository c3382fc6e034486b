// What comes between: pods that go and sets that change while a table is being put in place.
import t from 'tap';
import { type AgentPod, parseAgentPod, recordOfRequest } from '../../src/agent/agent-pod.ts';
import { PodTables } from '../../src/agent/pod-tables.ts';
import { KernelError, NativeError } from '../../src/core/errors.ts';
import type { MeshSets } from '../../src/mesh/mesh-sets.ts';
import { FACTS, podRequest, TestClock, TestKernel } from '../support/agent-world.ts';
import { RecordingLog } from '../support/recording-log.ts';
import { makeIp } from '../support/services.ts';

function makePod(kernel: TestKernel): AgentPod {
  const record = recordOfRequest(podRequest(kernel, 'demo/shop-0', { ip: '10.1.2.3' }));
  const parsed = record === undefined ? undefined : parseAgentPod(record, FACTS);
  if (parsed?.kind !== 'value') throw new Error(JSON.stringify(parsed));
  return parsed.value;
}

function withVip(text: string): MeshSets {
  return { tcp: [], vip: [makeIp(text)], shim: [] };
}

t.test('mend() leaves nothing of a pod that is removed meanwhile', async (t) => {
  const kernel = new TestKernel();
  const pod = makePod(kernel);
  const tables = new PodTables({
    tables: kernel,
    unanswered: [],
    clock: new TestClock(),
    log: new RecordingLog(),
    onBroken: () => {},
  });
  await tables.add(pod);
  kernel.refuse = () => {
    throw new KernelError('changing elements: busy', 16, 'EBUSY');
  };
  await tables.change(withVip('10.254.0.9'));
  t.ok(tables.isBroken(pod.netns));
  kernel.refuse = () => {};
  const put = kernel.replaceTable.bind(kernel);
  kernel.replaceTable = async (netns, table) => {
    await tables.remove(pod);
    await put(netns, table);
  };
  await tables.mend();
  t.notOk(kernel.tables.has(pod.netns), 'no table is left in the namespace');
  kernel.events.length = 0;
  let changed: readonly string[] = [];
  const change = kernel.changeElements.bind(kernel);
  kernel.changeElements = (netns, elements) => {
    changed = netns;
    return change(netns, elements);
  };
  await tables.change(withVip('10.254.0.10'));
  t.strictSame(changed, [], 'and it is told of no change any more');
});

t.test('add() brings a new table up to date before it takes part in the changes of all', async (t) => {
  const kernel = new TestKernel();
  const pod = makePod(kernel);
  const options = { unanswered: [], clock: new TestClock(), log: new RecordingLog(), onBroken: () => {} };
  const tables = new PodTables({ tables: kernel, ...options });
  await tables.change(withVip('10.254.0.1'));
  const put = kernel.replaceTable.bind(kernel);
  kernel.replaceTable = async (netns, table) => {
    await put(netns, table);
    await tables.change({ tcp: [], vip: [], shim: [] });
  };
  // The first change is the new table's own; it is on its way for longer than the next one of all.
  const change = kernel.changeElements.bind(kernel);
  let next: Promise<void> | undefined;
  kernel.changeElements = async (netns, elements) => {
    if (next === undefined) {
      next = tables.change(withVip('10.254.0.1'));
      await new Promise(setImmediate);
    }
    return change(netns, elements);
  };
  await tables.add(pod);
  await next;
  t.strictSame(kernel.elements(pod.netns, 'mesh_vip4'), ['10.254.0.1']);
  await tables.change(withVip('10.254.0.2'));
  t.strictSame(kernel.elements(pod.netns, 'mesh_vip4'), ['10.254.0.2'], 'and takes part from then on');
});

t.test('change() that fails as a whole is mended in every pod', async (t) => {
  const kernel = new TestKernel();
  const pod = makePod(kernel);
  const clock = new TestClock();
  let wanted = 0;
  const options = { unanswered: [], clock, log: new RecordingLog(), onBroken: () => void wanted++ };
  const tables = new PodTables({ tables: kernel, ...options });
  await tables.add(pod);
  const change = kernel.changeElements;
  kernel.changeElements = async () => {
    throw new NativeError('send a batch to 1 namespaces: EAGAIN');
  };
  await tables.change(withVip('10.254.0.9'));
  t.ok(tables.isBroken(pod.netns));
  kernel.changeElements = change;
  clock.advance(5000);
  t.equal(wanted, 1, 'it asks to be mended');
  await tables.mend();
  t.strictSame(kernel.elements(pod.netns, 'mesh_vip4'), ['10.254.0.9']);
});

t.test(
  'listDifferences() does not mind elements that follow the services, and finds a table that is gone',
  async (t) => {
    const kernel = new TestKernel();
    const pod = makePod(kernel);
    const options = { unanswered: [], clock: new TestClock(), log: new RecordingLog(), onBroken: () => {} };
    const tables = new PodTables({ tables: kernel, ...options });
    await tables.add(pod);
    t.strictSame(await tables.listDifferences(pod), []);
    kernel.tables.get(pod.netns)?.get('mesh_vip4')?.add('10.254.0.9');
    t.strictSame(await tables.listDifferences(pod), [], 'check looks at those, when nothing changes');
    kernel.tables.delete(pod.netns);
    t.strictSame(await tables.listDifferences(pod), ['missing table inet aether_mesh']);
  },
);
