// Fuzz targets on everything that reads what others wrote: configuration, CNI_ARGS, annotations, frames, records. A bounded
// number of random cases; what a run finds is repeated with AETHER_TEST_SEED. More with AETHER_TEST_ROUNDS.
import fc from 'fast-check';
import t from 'tap';
import { parsePodRecordJson } from '../../src/adapters/grpc/proto-pod.ts';
import { type NodeFacts, parseAgentPod } from '../../src/agent/agent-pod.ts';
import { parseVipPins } from '../../src/agent/vip-pins.ts';
import { effectiveAnnotations, parseCaptureDefaults, parseCapturePolicy } from '../../src/capture/parse-policy.ts';
import { planPluginTable } from '../../src/capture/plugin-table.ts';
import { parseCniArgs } from '../../src/cni/cni-args.ts';
import { parseAttachment, parseDetachment } from '../../src/cni/environment.ts';
import { parseJson } from '../../src/cni/json.ts';
import { decodeNetConfig, defaultNetConfig, readNetConfig } from '../../src/cni/net-config.ts';
import { decodeAnswer, encodeRequest, MARKER_TAKEN } from '../../src/cni/relay-frame.ts';
import { formatResult, parsePrevResult } from '../../src/cni/result.ts';
import { SUPPORTED_VERSIONS } from '../../src/cni/versions.ts';
import { AetherError, DecodeError, EnvironmentError } from '../../src/core/errors.ts';
import type { Problem } from '../../src/core/problems.ts';
import { parseWorkloadPorts } from '../../src/mesh/port-protocols.ts';
import { parseWorkload } from '../../src/mesh/workload.ts';
import { formatTableBody } from '../../src/nft/text.ts';
import { FakePluginNode } from '../support/fake-plugin-node.ts';
import { KEYS } from '../support/hostile-matrix.ts';
import { callPlugin } from '../support/plugin-call.ts';

const ROUNDS = Number(process.env['AETHER_TEST_ROUNDS'] ?? 20);
const SEED = Number(process.env['AETHER_TEST_SEED'] ?? Date.now() % 2 ** 31);
/** Cases of a target: thousands take a second. */
const RUNS = { numRuns: 100 * ROUNDS, seed: SEED };

t.setTimeout(3_600_000);
t.comment(`AETHER_TEST_SEED=${SEED}`);

const garbage = fc.string({ unit: 'binary', maxLength: 200 });
const nearly = (...words: readonly string[]) =>
  fc
    .array(fc.oneof({ weight: 5, arbitrary: fc.constantFrom(...words) }, { weight: 1, arbitrary: garbage }), {
      maxLength: 12,
    })
    .map((parts) => parts.join(''));

const ANNOTATIONS = [
  'endpoint.aether.io/port',
  'endpoint.aether.io/ports',
  'endpoint.aether.io/protocol',
  'endpoint.aether.io/weight',
  'endpoint.aether.io/health-check-mode',
  'endpoint.aether.io/health-path',
  'endpoint.aether.io/uds-socket',
  'capture.aether.io/redirect-all',
  'capture.aether.io/exclude-outbound-ports',
  'capture.aether.io/exclude-outbound-ip-ranges',
  'config.aether.io/upstreams',
  'aether.io/managed',
  'aether.io/service-account',
  '__proto__',
  'constructor',
] as const;
const annotationText = fc.oneof(
  garbage,
  nearly('8080', '9000', '0', '65535', '65536', '-', ',', '=', 'tcp', 'h2', 'GRPC', ' ', '18082'),
  nearly('10.0.0.0', '/8', '/0', 'fd00::', '/64', '::ffff:1.2.3.4', ',', '-', ' '),
  nearly('true', 'false', 'http', 'tcp', 'a/b', '../', 'x'.repeat(64), '\n'),
);
const annotations = fc.dictionary(fc.oneof(fc.constantFrom(...ANNOTATIONS), garbage), annotationText, { maxKeys: 8 });

/** Problems name where, say what, are one line each, and stay short whatever the input. */
function checkProblems(problems: readonly Problem[]): void {
  if (problems.length === 0) throw new Error('a refusal without a problem');
  for (const { path, message } of problems) {
    if (message === '' || /\p{Cc}/u.test(path + message)) {
      throw new Error(`no sentence: ${JSON.stringify({ path, message })}`);
    }
    if (message.length > 500 || path.length > 500) throw new Error(`too long: ${path} ${message}`);
  }
}

function check(name: string, property: fc.IProperty<readonly unknown[]>): void {
  t.test(name, async (t) => {
    fc.assert(property, RUNS);
    t.pass(`${RUNS.numRuns} cases`);
  });
}

const nearlyJson = fc.oneof(
  garbage,
  fc.json(),
  nearly(
    '{',
    '}',
    '[',
    ']',
    '"a"',
    ':',
    ',',
    '1',
    '-',
    '.',
    'e',
    'true',
    'null',
    '"',
    '\\',
    'u12',
    '\\u00e9',
    ' ',
    '\n',
  ),
  fc.tuple(fc.json(), fc.nat(), garbage).map(([text, at, more]) => text.slice(0, at % (text.length + 1)) + more),
);

check(
  'parseJson() takes exactly what JSON.parse takes',
  fc.property(nearlyJson, (text) => {
    let isJson = true;
    try {
      JSON.parse(text);
    } catch {
      isJson = false;
    }
    try {
      parseJson(text, 'it');
      return isJson;
    } catch (error) {
      return !isJson && error instanceof DecodeError;
    }
  }),
);

const anyValue = fc.jsonValue({ maxDepth: 3 });
const configs = fc.dictionary(
  fc.oneof({ weight: 8, arbitrary: fc.constantFrom(...Object.keys(KEYS)) }, { weight: 1, arbitrary: garbage }),
  fc.oneof(
    anyValue,
    annotationText,
    fc.constantFrom(...Object.values(KEYS).flatMap(({ good }) => Object.values(good))),
  ),
  { maxKeys: 10 },
);

check(
  'readNetConfig() gives a usable value and sentences for any object',
  fc.property(configs, (config) => {
    const {
      config: read,
      problems,
      warnings,
    } = readNetConfig(decodeNetConfig(new TextEncoder().encode(JSON.stringify(config))));
    if (problems.length > 0) checkProblems(problems);
    if (warnings.length > 0) checkProblems(warnings);
    return read.pinDir.startsWith('/') && read.agentTimeoutMs >= 1 && read.agentSocket.startsWith('/');
  }),
);

check(
  'formatResult() gives JSON of the asked version for any prevResult that is taken',
  fc.property(
    fc.dictionary(fc.constantFrom('cniVersion', 'ips', 'interfaces', 'routes', 'dns', 'x'), anyValue),
    (result) => {
      const text = JSON.stringify({ ...result });
      const node = parseJson(text, 'it');
      if (node.kind !== 'object') return false;
      const parsed = parsePrevResult(text, node);
      if (parsed.kind === 'problems') {
        checkProblems(parsed.problems);
        return true;
      }
      return SUPPORTED_VERSIONS.every(
        (version) => JSON.parse(formatResult(parsed.value, version)).cniVersion === version,
      );
    },
  ),
);

check(
  'parseCniArgs() gives checked names or problems',
  fc.property(
    fc.oneof(
      garbage,
      nearly('K8S_POD_NAME', 'K8S_POD_NAMESPACE', 'K8S_POD_UID', '=', ';', 'a', '-', '.', '/', 'A', '\n'),
    ),
    (text) => {
      const parsed = parseCniArgs(text);
      if (parsed.kind === 'problems') checkProblems(parsed.problems);
      else return Object.values(parsed.value).every((value) => /^[-0-9A-Za-z_.]+$/.test(value));
      return true;
    },
  ),
);

check(
  'parseAttachment() and parseDetachment() let nothing unchecked through',
  fc.property(
    fc.record({ CNI_CONTAINERID: garbage, CNI_NETNS: garbage, CNI_IFNAME: garbage, CNI_ARGS: garbage }),
    (env) => {
      const { containerId = 'c' } = parseDetachment(env);
      if (!/^[a-zA-Z0-9][\w.-]*$/.test(containerId)) return false;
      try {
        const { ifname } = parseAttachment({ ...env, CNI_CONTAINERID: 'c', CNI_NETNS: '/n' });
        return !/[/:\s]/.test(ifname);
      } catch (error) {
        if (!(error instanceof EnvironmentError)) throw error;
        checkProblems(error.problems);
        return true;
      }
    },
  ),
);

const DEFAULTS = parseCaptureDefaults(defaultNetConfig());
if (DEFAULTS.kind === 'problems') throw new Error('the defaults have problems');
const defaults = DEFAULTS.value;

check(
  'parseCapturePolicy() gives rules without a trace of the text, and what the agent makes of them is the same',
  fc.property(annotations, (given) => {
    const parsed = parseCapturePolicy(given, defaults);
    if (parsed.kind === 'problems') {
      checkProblems(parsed.problems);
      return true;
    }
    const rules = formatTableBody(planPluginTable(parsed.value));
    if (!/^[\w\s.:,;{}()=/@<>!&"-]*$/.test(rules)) throw new Error(`foreign text in the rules: ${rules}`);
    const again = parseCapturePolicy(effectiveAnnotations(given, parsed.value), defaults);
    return again.kind === 'value' && formatTableBody(planPluginTable(again.value)) === rules;
  }),
);

check(
  'parseWorkloadPorts() gives ports that can be served',
  fc.property(annotations, (given) => {
    const parsed = parseWorkloadPorts(given);
    if (parsed.kind === 'problems') {
      checkProblems(parsed.problems);
      return true;
    }
    const ports = parsed.value.served.map(({ port }) => port);
    return (
      ports.includes(parsed.value.primary) &&
      ports.every(
        (port, index) => Number.isInteger(port) && port >= 1 && port <= 65_535 && port > (ports[index - 1] ?? 0),
      )
    );
  }),
);

const FACTS: NodeFacts = {
  ...{ nodeName: 'n', clusterName: 'c', region: '', zone: '', hostIp: '10.0.0.1' },
  ...{ trustDomain: 'aether.internal', redirectAllDefault: false },
};
const record = fc.record({
  name: fc.oneof(fc.constant('shop-0'), garbage),
  namespace: fc.oneof(fc.constant('demo'), garbage),
  networkNamespace: fc.oneof(fc.constant('/n'), garbage),
  containerId: fc.oneof(fc.constant('c1'), garbage),
  ips: fc.array(fc.oneof(fc.constantFrom('10.0.0.1', 'fd00::1'), garbage), { maxLength: 3 }),
  labels: fc.constant({}),
  annotations,
  serviceAccount: fc.oneof(fc.constant('shop'), garbage),
  terminating: fc.boolean(),
  uid: garbage,
});

check(
  'parseWorkload() and parseAgentPod() agree about any record',
  fc.property(record, (given) => {
    const workload = parseWorkload(given);
    const pod = parseAgentPod(given, FACTS);
    if (workload.kind === 'problems') checkProblems(workload.problems);
    if (pod.kind === 'problems') checkProblems(pod.problems);
    return workload.kind === 'value' || pod.kind === 'problems';
  }),
);

const refusesInWords =
  (read: (text: string) => unknown) =>
  (text: string): boolean => {
    try {
      read(text);
      return true;
    } catch (error) {
      // A sentence of ours or of JSON and protobuf; never a defect's TypeError about undefined.
      return error instanceof Error && !/undefined|is not a function|Maximum call stack/.test(error.message);
    }
  };

check(
  'parsePodRecordJson() reads a record or says what is wrong',
  fc.property(nearlyJson, refusesInWords(parsePodRecordJson)),
);
check(
  'parseVipPins() reads pins or names every problem',
  fc.property(nearlyJson, (text) => {
    const parsed = parseVipPins(text);
    if (parsed.kind === 'problems') checkProblems(parsed.problems);
    return true;
  }),
);

const bytes = fc.uint8Array({ maxLength: 100 }).map((array) => Buffer.from(array));
const frame = fc
  .tuple(fc.dictionary(fc.constantFrom('CNI_COMMAND', 'CNI_ARGS', 'CNI_X'), garbage), bytes, fc.nat(), bytes)
  .map(([env, stdin, at, more]) => {
    const whole = encodeRequest(env, stdin);
    return Buffer.concat([whole.subarray(0, at % (whole.length + 1)), more]);
  });

check(
  // Requests are the fuzz target's: native/relay-fuzz.c.
  'the answers of the relay are read or refused',
  fc.property(fc.oneof(bytes, frame), (input) => {
    const answer = decodeAnswer(input);
    return answer.kind !== 'answer' || input[0] === MARKER_TAKEN;
  }),
);

const commands = fc.constantFrom('ADD', 'DEL', 'CHECK', 'GC', 'STATUS', 'VERSION');
const stdin = fc.oneof(
  nearlyJson,
  fc
    .tuple(configs, fc.constantFrom(...SUPPORTED_VERSIONS))
    .map(([config, cniVersion]) => JSON.stringify({ ...config, cniVersion, name: 'n' })),
);

t.test('a whole call gives one document or none, and a failed ADD leaves nothing', async (t) => {
  await fc.assert(
    fc.asyncProperty(commands, stdin, annotations, async (verb, input, pod) => {
      const node = new FakePluginNode();
      const isGiven = input.length % 2 === 0;
      const call = isGiven ? { annotations: { 'aether.io/managed': 'true', ...pod } } : { stdin: input };
      const { stdout, stderr, exitCode } = await callPlugin(node, verb, call);
      if (/\n\s+at /.test(stdout + stderr)) throw new Error(`a stack trace: ${stderr}`);
      if (verb === 'DEL') return exitCode === 0 && stdout === '';
      if (exitCode === 0) return stdout === '' || typeof JSON.parse(stdout) === 'object';
      const { code, msg } = JSON.parse(stdout) as { code: number; msg: string };
      if (verb === 'ADD' && Object.values(node.state).some((left) => left.length > 0))
        throw new Error('something is left');
      // 999 is a defect of ours.
      return code > 0 && code < 999 && msg !== '';
    }),
    { ...RUNS, numRuns: 25 * ROUNDS },
  );
  t.pass(`${25 * ROUNDS} cases`);
});

t.test('what is thrown is of our own kinds', async (t) => {
  await fc.assert(
    fc.property(garbage, (text) => {
      try {
        decodeNetConfig(Buffer.from(text, 'latin1'));
        return true;
      } catch (error) {
        return error instanceof AetherError;
      }
    }),
    RUNS,
  );
  t.pass();
});
