// What comes between: a pod that goes while its table is being mended.
import t from 'tap';
import { type AgentPod, parseAgentPod, recordOfRequest } from '../../src/agent/agent-pod.ts';
import { PodTables } from '../../src/agent/pod-tables.ts';
import { KernelError } from '../../src/core/errors.ts';
import type { MeshSets } from '../../src/mesh/mesh-sets.ts';
import { podRequest, TestClock, TestKernel } from '../support/agent-world.ts';
import { RecordingLog } from '../support/recording-log.ts';
import { makeIp } from '../support/services.ts';

const FACTS = {
  nodeName: 'n',
  clusterName: 'c',
  region: '',
  zone: '',
  hostIp: '',
  trustDomain: 'td',
  redirectAllDefault: false,
};

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
