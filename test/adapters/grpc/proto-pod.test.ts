// Round trips of a pod through the wire and through its record file; the file of the Go mesh.
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import fc from 'fast-check';
import t from 'tap';
import {
  formatPodRecordJson,
  parsePodRecordJson,
  podRecordFromMessage,
  podRecordToMessage,
  podRequestFromMessage,
  podRequestToMessage,
  type StoredPod,
} from '../../../src/adapters/grpc/proto-pod.ts';
import { InputError } from '../../../src/core/errors.ts';
import { type ContainerId, parseContainerId } from '../../../src/core/identifiers.ts';
import { CNIPodSchema } from '../../../src/gen/aether/cni/v1/cni_pb.js';

function id(text: string): ContainerId {
  const parsed = parseContainerId(text);
  if (typeof parsed === 'object') throw new Error(parsed.problem);
  return parsed;
}

const record: StoredPod = {
  name: 'shop-0',
  namespace: 'demo',
  networkNamespace: '/run/aether/netns/abc',
  containerId: 'abc',
  ips: ['10.1.2.3', 'fd00::3'],
  labels: { app: 'shop' },
  annotations: { 'endpoint.aether.io/ports': '8080,9000=tcp', quote: '"\n\u00fc' },
  serviceAccount: 'shop',
  terminating: false,
  uid: 'u-1',
};

t.test('podRequestFromMessage() reads what podRequestToMessage() sent', async (t) => {
  const pod = { ...record, containerId: id('abc') };
  const { labels: _l, serviceAccount: _s, terminating: _t, ...request } = pod;
  const bytes = toBinary(CNIPodSchema, podRequestToMessage(request));
  t.same(podRequestFromMessage(fromBinary(CNIPodSchema, bytes)), request);
});

t.test('podRequestFromMessage() names every problem', async (t) => {
  const bad = create(CNIPodSchema, { name: '', containerId: '../x' });
  t.throws(() => podRequestFromMessage(bad), {
    code: 'E_INPUT',
    message: /pod\.name: .*pod\.container_id: .*"\.\.\/x"/,
  });
  t.throws(() => podRequestFromMessage(undefined), InputError);
});

t.test('podRequestFromMessage() keeps an absent pid apart from zero', async (t) => {
  t.notOk('pid' in podRequestFromMessage(create(CNIPodSchema, { name: 'a', containerId: 'b' })));
  t.equal(podRequestFromMessage(create(CNIPodSchema, { name: 'a', containerId: 'b', pid: 0 })).pid, 0);
});

t.test('a record survives the wire and the file', async (t) => {
  const text = fc.string({ unit: 'grapheme' });
  const map = fc.dictionary(
    text.filter((key) => key !== '__proto__'),
    text,
    { noNullPrototype: true },
  );
  const arbitrary = fc.record(
    {
      name: text,
      namespace: text,
      networkNamespace: text,
      containerId: fc.stringMatching(/^[a-z0-9][a-z0-9_.-]{0,60}$/),
      ips: fc.array(fc.ipV4()),
      labels: map,
      annotations: map,
      serviceAccount: text,
      terminating: fc.boolean(),
      uid: text,
    },
    { noNullPrototype: true },
  );
  fc.assert(
    fc.property(arbitrary, fc.option(fc.integer({ min: 0, max: 2 ** 32 - 1 })), (base, pid) => {
      const stored: StoredPod = pid === null ? base : { ...base, pid };
      t.strictSame(podRecordFromMessage(podRecordToMessage(stored)), stored);
      t.strictSame(parsePodRecordJson(formatPodRecordJson(stored)), stored);
    }),
    { numRuns: 50 },
  );
});

t.test('formatPodRecordJson() writes canonical proto3 JSON', async (t) => {
  const json: unknown = JSON.parse(formatPodRecordJson({ ...record, pid: 7 }));
  t.match(json, { name: 'shop-0', networkNamespace: '/run/aether/netns/abc', containerId: 'abc', pid: 7 });
  t.notOk(Object.hasOwn(Object(json), 'terminating'), 'a default is left out');
});

t.test('parsePodRecordJson() takes a file of the Go mesh with a field from the future', async (t) => {
  const text = '{"name":"p","container_id":"c1","pid":4294967295,"terminating":true,"fromTheFuture":{"a":[1]}}';
  t.match(parsePodRecordJson(text), { name: 'p', containerId: 'c1', pid: 4294967295, terminating: true, labels: {} });
});

const BROKEN = [
  '',
  '{',
  'null',
  '[]',
  '{}',
  '{"containerId":7}',
  '{"containerId":"../x"}',
  '{"containerId":"a","ips":"x"}',
];
for (const text of BROKEN) {
  t.test(`parsePodRecordJson() rejects ${JSON.stringify(text)}`, async (t) => {
    t.throws(() => parsePodRecordJson(text), InputError);
  });
}
