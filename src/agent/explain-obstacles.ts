// What stands between an explanation and its coming true: an Envoy that is away, or has not taken what the connection needs.
import { formatProblems } from '../core/problems.ts';
import type { ExplainedDial, Explanation } from '../mesh/explanation.ts';
import { CAPTURE_ROUTES, CHAIN_CAPTURE } from '../mesh/names.ts';
import type { LeftOut } from '../xds/build-fit-snapshot.ts';
import type { Snapshot } from '../xds/resource.ts';
import type { ResourceName, SnapshotPublisher } from './publisher.ts';

/** What Envoy is told, and whether it took it. */
export interface Told {
  readonly snapshot: Snapshot | undefined;
  readonly leftOut: readonly LeftOut[];
  readonly publisher: SnapshotPublisher;
}

/** The explanation as it is now: what leads somewhere only once Envoy has what it needs is not resolved. */
export async function judgeNow(explanation: Explanation, told: Told): Promise<Explanation> {
  const obstacles = await findObstacles(explanation.dials, told);
  if (obstacles.length === 0) return explanation;
  if (!explanation.resolved) return { ...explanation, notes: [...explanation.notes, ...obstacles] };
  const verdict = `not now: ${obstacles.join('; ')}. Otherwise: ${explanation.verdict}`;
  return { ...explanation, resolved: false, verdict };
}

async function findObstacles(dials: readonly ExplainedDial[], told: Told): Promise<readonly string[]> {
  const byEnvoy = dials.filter(({ listener }) => listener !== '');
  if (byEnvoy.length === 0) return [];
  if (told.publisher.streams === 0) return ['no proxy is connected, and what is captured goes nowhere until one is'];
  const services = new Set(byEnvoy.flatMap(({ target }) => target?.service ?? []));
  const leftOut = told.leftOut.filter(({ kind, name }) => kind === 'service' && services.has(name));
  const untold = leftOut.map(
    ({ name, problems }) => `${name} is left out of the proxy's configuration: ${formatProblems(problems)}`,
  );
  if (untold.length > 0) return untold;
  const needed = new Map(byEnvoy.flatMap((dial) => listNeeded(dial, told.snapshot)).map((each) => [key(each), each]));
  const said = [...needed.values()].map((resource) => sayState(resource, told));
  return (await Promise.all(said)).flatMap((sentence) => sentence ?? []);
}

const key = ({ kind, name }: ResourceName): string => `${kind} ${name}`;

function listNeeded(
  { listener, chain, cluster }: ExplainedDial,
  snapshot: Snapshot | undefined,
): readonly ResourceName[] {
  const needed: ResourceName[] = [{ kind: 'listener', name: listener }];
  if (chain === CHAIN_CAPTURE) needed.push({ kind: 'routes', name: CAPTURE_ROUTES });
  if (cluster === '') return needed;
  needed.push({ kind: 'cluster', name: cluster });
  const edsName = snapshot?.resources.cluster.get(cluster)?.edsName;
  if (edsName !== undefined) needed.push({ kind: 'endpoints', name: edsName });
  return needed;
}

async function sayState({ kind, name }: ResourceName, { snapshot, publisher }: Told): Promise<string | undefined> {
  if (snapshot?.resources[kind].has(name) !== true) {
    // Named and left out on purpose: Envoy asks for it when a connection needs it.
    return snapshot?.fetchable?.has(name) ? undefined : `the proxy is not told of ${kind} ${name}`;
  }
  const taken = await publisher.waitForAck([{ kind, name }], { timeoutMs: 0 });
  if (taken.kind === 'acknowledged') return undefined;
  if (taken.kind !== 'rejected') return `the proxy has not acknowledged ${kind} ${name} yet`;
  return `the proxy refuses ${kind} ${name}: ${taken.resources.map(({ message }) => message).join('; ')}`;
}
