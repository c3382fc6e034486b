// Pods of the node and services of the mesh -> every resource of the node's Envoy, and the kernel sets that go with them.
import { planMeshSets } from '../mesh/plan-mesh-sets.ts';
import type { SnapshotInput } from './input.ts';
import type { Snapshot } from './resource.ts';

export interface BuildOptions {
  /** Hash of a resource's bytes, short text (16 hex digits); the same in every process. */
  readonly hash: (bytes: Uint8Array) => string;
  /** What to build on: unchanged pods and services (the same objects) cost nothing, unchanged resources stay the same objects. */
  readonly previous?: Snapshot;
}

/** Builds all resources. The same input gives the same bytes, whatever `previous` is. */
export function buildSnapshot(input: SnapshotInput, _options: BuildOptions): Snapshot {
  return {
    resources: {
      cluster: new Map(),
      endpoints: new Map(),
      listener: new Map(),
      routes: new Map(),
      secret: new Map(),
    },
    meshSets: planMeshSets(input.services, { tcp: input.node.identity === 'mtls' }),
  };
}
