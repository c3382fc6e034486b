// Resources made by analogy are the bytes that building gives, and say the same of themselves.
import { createHash } from 'node:crypto';
import fc from 'fast-check';
import t from 'tap';
import { podResourceName } from '../../src/mesh/names.ts';
import { buildSnapshot } from '../../src/xds/build-snapshot.ts';
import type { NodePod, NodeSettings, SnapshotInput } from '../../src/xds/input.ts';
import { podResources } from '../../src/xds/pod-templates.ts';
import type { Resource } from '../../src/xds/resource.ts';
import { clusterFacts, listenerFacts } from '../../src/xds/resource-facts.ts';
import { exampleInput } from '../support/xds-example.ts';

const sha = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex').slice(0, 16);

/** A hash of its own has templates of its own. */
const fresh = () => (bytes: Uint8Array) => sha(bytes);

const label = fc.stringMatching(/^[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?$/);
const anyName = fc.oneof(
  { weight: 5, arbitrary: label },
  fc.constantFrom('a', '~', 'per%cent', 'ü', 'a~b', '^^^', '`'),
);
const pods = exampleInput().pods;
const anyPod: fc.Arbitrary<NodePod> = fc
  .record({ base: fc.constantFrom(...pods), namespace: anyName, name: anyName, id: anyName, redirectAll: fc.boolean() })
  .map(({ base, namespace, name, id, redirectAll }) => ({
    ...base,
    redirectAll,
    resourceName: podResourceName({ namespace, name }),
    identity: `spiffe://aether.internal/ns/${namespace}/sa/${id}`,
    netnsPath: `/run/aether/netns/${id}`,
  }));
const anyNode: fc.Arbitrary<NodeSettings> = fc
  .record({ ipv6: fc.boolean(), log: fc.boolean(), identity: fc.constantFrom('mtls' as const, 'none' as const) })
  .map(({ ipv6, log, identity }) => ({
    ...exampleInput().node,
    ipv6,
    identity,
    ...(log ? { accessLog: { sink: { kind: 'stdout' as const }, successPercent: 50 } } : {}),
  }));

const resourcesOf = (input: SnapshotInput, hash: (bytes: Uint8Array) => string): readonly Resource[] => {
  const { cluster, listener } = buildSnapshot(input, { hash }).resources;
  return [...cluster.values(), ...listener.values()];
};

t.test('a pod has the same resources whether it is the first of its kind or a later one', (t) => {
  fc.assert(
    fc.property(anyNode, fc.array(anyPod, { minLength: 2, maxLength: 12 }), (node, list) => {
      const shared = fresh();
      for (const pod of list) {
        const input = { ...exampleInput(), node, pods: [pod], services: [] };
        const wanted = resourcesOf(input, fresh());
        const found = resourcesOf(input, shared);
        for (const [index, resource] of wanted.entries()) {
          const same = found[index];
          if (same === undefined || !Buffer.from(resource.bytes).equals(same.bytes)) throw new Error(resource.name);
          const facts = resource.kind === 'cluster' ? clusterFacts : listenerFacts;
          if (JSON.stringify(facts(resource)) !== JSON.stringify(facts(same)))
            throw new Error(`facts ${resource.name}`);
          if (resource.version !== same.version || resource.name !== same.name) throw new Error(resource.name);
        }
      }
    }),
    { numRuns: 50 },
  );
  t.end();
});

const pod = (name: string, more: Partial<NodePod> = {}): NodePod => {
  const [base] = pods;
  if (base === undefined) throw new Error('no pod');
  return { ...base, resourceName: `demo_${name}`, netnsPath: `/run/netns/${name}`, ...more };
};

t.test('podResources() builds once a kind, and never by analogy what does not follow it', (t) => {
  let built = 0;
  const hash = fresh();
  const make = (text: (pod: NodePod) => string) => ({
    key: `${text}`,
    hash,
    build: (pod: NodePod): readonly Resource[] => {
      built += 1;
      const bytes = Buffer.from(text(pod));
      return [{ kind: 'secret', name: pod.resourceName, version: hash(bytes), bytes }];
    },
  });
  const countFor = (text: (pod: NodePod) => string, names: readonly string[]): number => {
    const before = built;
    for (const name of names) {
      const [resource] = podResources(pod(name), make(text));
      t.equal(Buffer.from(resource?.bytes ?? []).toString(), text(pod(name)), name);
    }
    return built - before;
  };
  const plain = ({ resourceName, netnsPath }: NodePod): string => `\x0a\x00 ${resourceName} at ${netnsPath}.`;
  // Twice for the first: as it is, and with marks in its texts.
  t.equal(countFor(plain, ['a1', 'a2', 'b3', 'longer', 'lonely']), 4);
  t.equal(
    countFor(({ resourceName }) => resourceName.toUpperCase(), ['a1', 'a2']),
    3,
    'written otherwise',
  );
  t.equal(
    countFor(({ resourceName }) => `${resourceName} ^^`, ['a1', 'a2']),
    3,
    'a mark of its own',
  );
  t.equal(
    countFor(({ resourceName }) => String(resourceName.length), ['a1', 'a2']),
    2,
    'not named at all',
  );
  t.equal(
    countFor(({ resourceName }) => resourceName.replaceAll('%', '%%'), ['aa', 'a%']),
    3,
    'not plain',
  );
  t.end();
});
