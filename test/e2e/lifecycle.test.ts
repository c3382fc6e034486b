// A pod's life through the real executables, the full file and the relay: what ADD prints and makes, what DEL leaves, and
// what bad input changes: nothing.
import { join } from 'node:path';
import {
  type Attachment,
  cniEnvironment,
  type Json,
  type PluginConfig,
  type PluginRun,
  pluginInput,
  runPlugin,
} from '../../scripts/lab/cni-runtime.ts';
import { pluginEntry, startLab } from '../../scripts/lab/lab.ts';
import { LOOPBACK_LIST, makeNetns, podNetwork, removeNetns } from '../../scripts/lab/network.ts';
import { EXECUTABLE, PLUGIN_DIRS, RELAY } from '../../scripts/lab/places.ts';
import { addressOf, describeAttachment } from '../../scripts/lab/pods.ts';
import { waitUntil } from '../../scripts/lab/processes.ts';
import { enterSandbox } from '../../scripts/lab/sandbox.ts';
import { findTraces, listTables, type Traces } from '../support/lab-traces.ts';

const sandbox = await enterSandbox(import.meta.filename);
// Only inside the sandbox: outside, this process prints nothing of its own.
const { default: t } = await import('tap');
t.setTimeout(240_000);
const lab = await startLab(sandbox);
const entry: PluginConfig = pluginEntry(lab.places, lab.dir);
const primary = podNetwork(join(lab.dir, 'ipam'), []);
const NOTHING: Traces = {
  ...{ tables: [], pins: [], pinMounts: [], records: [], deleteQueue: [], listeners: [], clusters: [] },
};

/** A pod with an address from the real bridge plugin, not yet seen by ours. */
interface BarePod {
  readonly attachment: Attachment;
  readonly prevResult: Json;
  readonly traces: () => Promise<Traces>;
}

let count = 0;

async function makeBarePod(annotations: Readonly<Record<string, string>> = {}): Promise<BarePod> {
  const name = `life-${count++}`;
  const spec = { name, namespace: 'demo', serviceAccount: name, annotations, apps: [] };
  const netns = makeNetns(join(lab.dir, 'ns'), name);
  const attachment = describeAttachment(spec, netns);
  await lab.runtime.add(LOOPBACK_LIST, { ...attachment, ifname: 'lo' });
  const result = await lab.runtime.add(primary, attachment);
  const { containerId } = attachment;
  const ip = addressOf(result, 4);
  const traces = () => findTraces(lab, { netns, containerId, resourceName: `demo_${name}`, ip });
  // A key of a plugin that we know nothing about has to come through.
  return { attachment, prevResult: { ...result, 'x-vendor': { deep: [1, null, 'é'] } }, traces };
}

/** `full file`: by gRPC; `full file for the relay`: it asks at the relay's socket. */
type Form = 'full file' | 'full file for the relay' | 'relay';
const FILE_OF: Readonly<Record<Form, string>> = {
  'full file': EXECUTABLE,
  'full file for the relay': EXECUTABLE,
  relay: RELAY,
};
const FORMS = ['full file', 'full file for the relay', 'relay'] as const;
let form: Form = 'full file';

/** One call of the executable of the current form alone. `env` and `input` replace parts of a good call; `undefined` takes a variable away. */
function call(
  command: 'ADD' | 'DEL' | 'CHECK',
  pod: BarePod,
  change: {
    readonly env?: Readonly<Record<string, string | undefined>>;
    readonly input?: (good: Json) => unknown;
  } = {},
): Promise<PluginRun> {
  const input = pluginInput(primary, entry, {
    capabilities: pod.attachment.capabilities,
    prevResult: pod.prevResult,
  });
  const changed = change.input === undefined ? input : change.input(JSON.parse(input));
  const relay = form === 'full file' ? {} : { AETHER_RELAY_SOCKET: lab.places.relaySocket };
  const env = { ...cniEnvironment(command, pod.attachment, PLUGIN_DIRS), ...relay, ...change.env };
  const kept = Object.entries(env).filter((pair): pair is [string, string] => pair[1] !== undefined);
  return runPlugin(FILE_OF[form], typeof changed === 'string' ? changed : JSON.stringify(changed), {
    env: Object.fromEntries(kept),
  });
}

/** DEL answers before Envoy has let go of its listeners. */
async function waitForNothing(pod: BarePod): Promise<Traces> {
  let last = NOTHING;
  await waitUntil(
    'the traces of the pod to go',
    async () => {
      last = await pod.traces();
      return JSON.stringify(last) === JSON.stringify(NOTHING);
    },
    { timeoutMs: 12_000 },
  ).catch(() => {});
  return last;
}

const dels: readonly { readonly name: string; readonly change: Parameters<typeof call>[2] }[] = [
  { name: 'without a namespace and prevResult', change: { env: { CNI_NETNS: '' }, input: withoutPrevResult } },
  { name: 'with a namespace that is gone', change: { env: { CNI_NETNS: '/tmp/ae-none/ns' } } },
  { name: 'without CNI_ARGS', change: { env: { CNI_ARGS: undefined } } },
];
const annotationsKey = 'io.kubernetes.cri.pod-annotations';
const withAnnotation = (key: string, value: string) => (good: Json) => {
  const { runtimeConfig } = good as { runtimeConfig: Record<string, Record<string, string>> };
  return { ...good, runtimeConfig: { [annotationsKey]: { ...runtimeConfig[annotationsKey], [key]: value } } };
};

const bad: readonly {
  readonly name: string;
  readonly change: NonNullable<Parameters<typeof call>[2]>;
  readonly code: number | readonly number[];
  readonly says: RegExp;
}[] = [
  { name: 'no prevResult', change: { input: withoutPrevResult }, code: 7, says: /chain/i },
  {
    name: 'an unknown suffix',
    change: { input: withAnnotation('endpoint.aether.io/ports', '8080,9000=udp') },
    code: 7,
    says: /endpoint\.aether\.io\/ports.*udp/,
  },
  {
    name: 'several wrong ports',
    change: { input: withAnnotation('endpoint.aether.io/ports', '0,18082=tcp,9000=') },
    code: 7,
    says: /ports\[0\].*ports\[1\].*ports\[2\]/,
  },
  { name: 'malformed JSON', change: { input: () => '{"cniVersion":"1.0.0",' }, code: 6, says: /line 1/ },
  { name: 'nothing on stdin', change: { input: () => '' }, code: 6, says: /./ },
  { name: 'no CNI_CONTAINERID', change: { env: { CNI_CONTAINERID: undefined } }, code: 4, says: /CNI_CONTAINERID/ },
  { name: 'no CNI_NETNS', change: { env: { CNI_NETNS: undefined } }, code: 4, says: /CNI_NETNS/ },
  { name: 'no CNI_IFNAME', change: { env: { CNI_IFNAME: undefined } }, code: 4, says: /CNI_IFNAME/ },
  {
    name: 'a container id with a slash',
    change: { env: { CNI_CONTAINERID: '../x' } },
    code: 4,
    says: /CNI_CONTAINERID/,
  },
  { name: 'a vanished namespace', change: { env: { CNI_NETNS: '/tmp/ae-none/ns' } }, code: 3, says: /ae-none/ },
  {
    name: "the node's own namespace",
    change: { env: { CNI_NETNS: '/proc/1/ns/net' } },
    code: [4, 7, 100, 101, 102],
    says: /host|own/,
  },
  {
    name: 'an unsupported version',
    change: { input: (good) => ({ ...good, cniVersion: '9.9.9' }) },
    code: 1,
    says: /9\.9\.9/,
  },
  {
    name: 'a wrong type',
    change: { input: (good) => ({ ...good, agent_timeout_ms: 'soon' }) },
    code: 7,
    says: /agent_timeout_ms/,
  },
  {
    name: 'no agent',
    change: { input: (good) => ({ ...good, agent_cni_path: join(lab.dir, 'nobody.sock'), agent_timeout_ms: 300 }) },
    code: 11,
    says: /agent/,
  },
];

for (const current of FORMS) {
  form = current;
  await t.test(`${form}: ADD prints prevResult and nothing else`, async (t) => {
    const pod = await makeBarePod();
    const run = await call('ADD', pod);
    t.equal(run.exitCode, 0, run.stderr);
    t.equal(run.stdout.trim(), JSON.stringify(pod.prevResult));
    t.match(await pod.traces(), {
      tables: ['inet aether', 'inet aether_mesh'],
      pins: [pod.attachment.containerId],
      pinMounts: [String],
      records: [`${pod.attachment.containerId}.json`],
      deleteQueue: [],
    });
    t.ok((await pod.traces()).listeners.length >= 4);
    await call('DEL', pod);
  });

  await t.test(`${form}: ADD again changes nothing`, async (t) => {
    const pod = await makeBarePod();
    await call('ADD', pod);
    const before = await pod.traces();
    const run = await call('ADD', pod);
    t.equal(run.stdout.trim(), JSON.stringify(pod.prevResult), run.stderr);
    t.strictSame(await pod.traces(), before);
    const check = await call('CHECK', pod);
    t.equal(check.exitCode, 0, check.stdout);
    t.equal(check.stdout, '');
    await call('DEL', pod);
  });

  await t.test(`${form}: DEL leaves no rule, pin, record, registration, listener`, async (t) => {
    const pod = await makeBarePod();
    await call('ADD', pod);
    const run = await call('DEL', pod);
    t.strictSame({ exitCode: run.exitCode, stdout: run.stdout }, { exitCode: 0, stdout: '' }, run.stderr);
    t.strictSame(await waitForNothing(pod), NOTHING);
  });

  for (const { name, change } of dels) {
    await t.test(`${form}: DEL ${name} takes the pod away, and again is fine`, async (t) => {
      const pod = await makeBarePod();
      await call('ADD', pod);
      for (const time of ['first', 'second']) {
        const run = await call('DEL', pod, change);
        t.strictSame(
          { exitCode: run.exitCode, stdout: run.stdout },
          { exitCode: 0, stdout: '' },
          `${time} ${run.stderr}`,
        );
      }
      // The rules go with the namespace, which this DEL was not told of.
      removeNetns(pod.attachment.netns);
      t.strictSame(await waitForNothing(pod), NOTHING);
    });
  }

  // In the relay the agent itself acts: it is there.
  if (form === 'full file') {
    await t.test(`${form}: DEL without the agent succeeds at once and is made up for`, async (t) => {
      const pod = await makeBarePod();
      await call('ADD', pod);
      const nobody = (good: Json) => ({ ...good, agent_cni_path: join(lab.dir, 'nobody.sock') });
      const run = await call('DEL', pod, { input: nobody });
      t.strictSame({ exitCode: run.exitCode, stdout: run.stdout }, { exitCode: 0, stdout: '' }, run.stderr);
      t.ok(run.ms < 4500, `${run.ms} ms`);
      t.strictSame(await waitForNothing(pod), NOTHING);
    });
  }

  for (const { name, change, code, says } of bad.filter(({ name }) => form === 'full file' || name !== 'no agent')) {
    await t.test(`${form}: ADD with ${name} prints one error object and leaves nothing`, async (t) => {
      const pod = await makeBarePod();
      const nodeTables = listTables(undefined);
      const run = await call('ADD', pod, change);
      t.not(run.exitCode, 0);
      const error: unknown = JSON.parse(run.stdout);
      t.match(error, { cniVersion: String, code: Number, msg: String });
      // Checked the line before.
      const { code: got, msg, details } = error as { code: number; msg: string; details?: string };
      t.ok([code].flat().includes(got), `code ${got}: ${msg}`);
      t.match(`${msg} ${details ?? ''}`, says);
      t.strictSame(await pod.traces(), NOTHING);
      t.strictSame(listTables(undefined), nodeTables);
    });
  }
}

await t.test('the lab ends in good order', async (t) => {
  await lab[Symbol.asyncDispose]();
  t.pass();
});

function withoutPrevResult(good: Json): Json {
  const { prevResult: _, ...rest } = good;
  return rest;
}
