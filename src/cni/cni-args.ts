// CNI_ARGS, `K=V;K=V` in any order: which Kubernetes pod a call is about. Keys of others are not our business.
import { isDnsLabel, isDnsName, isPodUid } from '../core/identifiers.ts';
import { type Parsed, ProblemList, quoteValue } from '../core/problems.ts';

/** Absent: not given. Without a namespace the call is not about a Kubernetes pod (podman sends a name alone). */
export interface CniArgs {
  readonly podName?: string;
  readonly podNamespace?: string;
  readonly podUid?: string;
}

export const NO_ARGS: CniArgs = {};

const OUR_KEYS: ReadonlySet<string> = new Set(['K8S_POD_NAME', 'K8S_POD_NAMESPACE', 'K8S_POD_UID']);

/** Problems name `CNI_ARGS` or `CNI_ARGS.<key>`. The pod's name is looked at only beside a namespace. */
export function parseCniArgs(text: string): Parsed<CniArgs> {
  const list = new ProblemList();
  const pairs = parsePairs(text, list);
  const podNamespace = pairs.get('K8S_POD_NAMESPACE');
  if (podNamespace === undefined) return list.finish(() => NO_ARGS);
  const podName = pairs.get('K8S_POD_NAME');
  const podUid = pairs.get('K8S_POD_UID');
  if (!isDnsLabel(podNamespace)) addProblem('K8S_POD_NAMESPACE', 'a DNS label', { value: podNamespace, list });
  if (podName !== undefined && !isDnsName(podName)) {
    addProblem('K8S_POD_NAME', 'a DNS name', { value: podName, list });
  }
  if (podUid !== undefined && !isPodUid(podUid)) addProblem('K8S_POD_UID', 'a uid', { value: podUid, list });
  return list.finish(() => ({
    podNamespace,
    ...(podName === undefined ? {} : { podName }),
    ...(podUid === undefined ? {} : { podUid }),
  }));
}

function addProblem(key: string, what: string, found: { readonly value: string; readonly list: ProblemList }): void {
  found.list.add(`CNI_ARGS.${key}`, `must be ${what}, got ${quoteValue(found.value)}`);
}

// Our keys only; an empty value is as good as none.
function parsePairs(text: string, list: ProblemList): ReadonlyMap<string, string> {
  const pairs = new Map<string, string>();
  const seen = new Set<string>();
  for (const pair of text.split(';')) {
    if (pair === '') continue;
    const equals = pair.indexOf('=');
    if (equals <= 0) {
      list.add('CNI_ARGS', 'must be pairs "KEY=VALUE" with ";" between them; one has no "="');
      continue;
    }
    const key = pair.slice(0, equals);
    if (!OUR_KEYS.has(key)) continue;
    if (seen.has(key)) list.add(`CNI_ARGS.${key}`, 'is given twice');
    seen.add(key);
    if (equals + 1 < pair.length) pairs.set(key, pair.slice(equals + 1));
  }
  return pairs;
}
