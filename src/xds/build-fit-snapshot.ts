// A snapshot that is fit to publish, whatever single pods and services are like: one that would make Envoy refuse something
// is left out alone and named; all others get what they need. Only what is nobody's fault makes the whole unfit.

import type { Problem } from '../core/problems.ts';
import { runSteps, type Steps } from '../core/steps.ts';
import { formatServiceKey } from '../mesh/names.ts';
import type { ServiceView } from '../mesh/service-view.ts';
import { type BuildOptions, buildSnapshotInSteps, listParts } from './build-snapshot.ts';
import { editSnapshotInSteps } from './edit-snapshot.ts';
import type { NodePod, SnapshotInput } from './input.ts';
import type { Snapshot } from './resource.ts';
import { findServiceFaults } from './service-faults.ts';
import type { Part, ServicePart } from './snapshot-parts.ts';
import { type SnapshotProblem, type Subject, validateSnapshotInSteps } from './validate-snapshot.ts';

/** A service (`<ns>/<sa>`) or pod (`<ns>_<pod>`) of which Envoy and the kernel are told nothing, and why. */
export interface LeftOut {
  readonly kind: 'service' | 'pod';
  readonly name: string;
  readonly problems: readonly Problem[];
}

/** `problems` is empty when the snapshot is fit to publish; `leftOut` is sorted, pods first. */
export interface FitSnapshot {
  readonly snapshot: Snapshot;
  readonly leftOut: readonly LeftOut[];
  readonly problems: readonly Problem[];
}

/** Fit, and nothing was left out. */
const whole = new WeakSet<Snapshot>();

/** Builds, checks, leaves out, builds again until nobody is at fault any more. */
export function buildFitSnapshot(input: SnapshotInput, options: BuildOptions): FitSnapshot {
  return runSteps(buildFitSnapshotInSteps(input, options));
}

/** The same, a pod or a service at a time. */
export function* buildFitSnapshotInSteps(input: SnapshotInput, options: BuildOptions): Steps<FitSnapshot> {
  const edited =
    options.previous && whole.has(options.previous) ? yield* editSnapshotInSteps(input, options) : undefined;
  if (edited !== undefined) {
    whole.add(edited);
    return { snapshot: edited, leftOut: [], problems: [] };
  }
  const leftOut = new Map<string, LeftOut>();
  for (const view of [...input.services, ...(input.others ?? [])]) {
    const problems = findServiceFaults(view);
    if (problems.length > 0) note(leftOut, { kind: 'service', name: formatServiceKey(view.key), problems });
    yield;
  }
  leaveOutClaims(input, leftOut);
  for (;;) {
    const fit = without(input, leftOut);
    const snapshot = yield* buildSnapshotInSteps(fit, options);
    const problems = [...(yield* validateSnapshotInSteps(snapshot)), ...findSharedAddresses(fit.services)];
    const size = leftOut.size;
    if (problems.length > 0) {
      const blame = new Blame(snapshot, options.previous);
      for (const problem of problems) for (const owner of blame.find(problem)) note(leftOut, owner);
    }
    if (leftOut.size > size) continue;
    if (problems.length + size === 0) whole.add(snapshot);
    return { snapshot, leftOut: sort([...leftOut.values()]), problems };
  }
}

function note(leftOut: Map<string, LeftOut>, { kind, name, problems }: LeftOut): void {
  const known = leftOut.get(`${kind} ${name}`);
  leftOut.set(`${kind} ${name}`, { kind, name, problems: [...(known?.problems ?? []), ...problems] });
}

// In the split form its clusters would tell; in the single form one service's chains would silently take the place of the
// other's.
function findSharedAddresses(services: readonly ServiceView[]): readonly SnapshotProblem[] {
  const owners = new Map<string, ServiceView>();
  const problems: SnapshotProblem[] = [];
  for (const view of services) {
    for (const { text } of view.vips) {
      const other = owners.get(text);
      if (other === undefined) owners.set(text, view);
      else if (other !== view) {
        const message = `is given twice: to ${formatServiceKey(other.key)} and to ${formatServiceKey(view.key)}`;
        problems.push({ path: `address ${text}`, message, subjects: [`address ${text}`] });
      }
    }
  }
  return problems;
}

// A service that Envoy is not given has nothing to lose: it never takes an address from one that is given.
function leaveOutClaims({ services, others = [] }: SnapshotInput, leftOut: Map<string, LeftOut>): void {
  if (others.length === 0) return;
  const taken = new Set(services.flatMap(({ vips }) => vips.map(({ text }) => text)));
  for (const { key, vips } of others) {
    const claimed = vips.find(({ text }) => taken.has(text));
    for (const { text } of vips) taken.add(text);
    if (claimed === undefined) continue;
    const problem = { path: `address ${claimed.text}`, message: 'is given to another service too' };
    note(leftOut, { kind: 'service', name: formatServiceKey(key), problems: [problem] });
  }
}

function without(input: SnapshotInput, leftOut: ReadonlyMap<string, LeftOut>): SnapshotInput {
  if (leftOut.size === 0) return input;
  const isFit = (view: ServiceView): boolean => !leftOut.has(`service ${formatServiceKey(view.key)}`);
  return {
    ...input,
    pods: input.pods.filter((pod) => !leftOut.has(`pod ${pod.resourceName}`)),
    services: input.services.filter(isFit),
    ...(input.others === undefined ? {} : { others: input.others.filter(isFit) }),
  };
}

function sort(list: LeftOut[]): readonly LeftOut[] {
  const orderOf = ({ kind, name }: LeftOut): string => `${kind} ${name}`;
  return list.sort((a, b) => (orderOf(a) < orderOf(b) ? -1 : 1));
}

interface Owner {
  readonly kind: LeftOut['kind'];
  readonly name: string;
  readonly part: Part<NodePod> | ServicePart;
}

/** Who is at fault. Of two that claim the same thing, who had it before keeps it; else the first one. */
class Blame {
  readonly #owners: readonly Owner[];
  readonly #before: ReadonlyMap<string, Owner>;

  constructor(snapshot: Snapshot, previous: Snapshot | undefined) {
    this.#owners = listOwners(snapshot);
    const before = previous === undefined ? [] : listOwners(previous);
    this.#before = new Map(before.map((owner) => [`${owner.kind} ${owner.name}`, owner]));
  }

  find({ subjects, path, message }: SnapshotProblem): readonly LeftOut[] {
    const owners = this.#owners.filter((owner) => subjects.some((subject) => owns(owner, subject)));
    const hadIt = (owner: Owner): boolean => {
      const earlier = this.#before.get(`${owner.kind} ${owner.name}`);
      return earlier !== undefined && subjects.some((subject) => owns(earlier, subject));
    };
    const keeper = owners.length < 2 ? undefined : (owners.find(hadIt) ?? owners[0]);
    const blamed = owners.filter((owner) => owner !== keeper);
    return blamed.map(({ kind, name }) => ({ kind, name, problems: [{ path, message }] }));
  }
}

function listOwners(snapshot: Snapshot): readonly Owner[] {
  const { pods, services } = listParts(snapshot) ?? { pods: [], services: [] };
  return [
    ...pods.map((part): Owner => ({ kind: 'pod', name: part.source.resourceName, part })),
    ...services.map((part): Owner => ({ kind: 'service', name: formatServiceKey(part.source.key), part })),
  ];
}

function owns({ part }: Owner, subject: Subject): boolean {
  if (part.resources.some(({ kind, name }) => `${kind} ${name}` === subject)) return true;
  return 'shape' in part && part.source.vips.some(({ text }) => `address ${text}` === subject);
}
