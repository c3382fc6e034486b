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

/** Problems name `CNI_ARGS` or `CNI_ARGS.<key>`. The pod's name is looked at only beside a namespace. */
export function parseCniArgs(text: string): Parsed<CniArgs> {
  const list = new ProblemList();
  const { K8S_POD_NAMESPACE: podNamespace, K8S_POD_NAME: podName, K8S_POD_UID: podUid } = readPairs(text, list);
  if (!podNamespace) return list.finish(() => NO_ARGS);
  if (!isDnsLabel(podNamespace)) addProblem('K8S_POD_NAMESPACE', 'a DNS label', { value: podNamespace, list });
  if (podName && !isDnsName(podName)) addProblem('K8S_POD_NAME', 'a DNS name', { value: podName, list });
  if (podUid && !isPodUid(podUid)) addProblem('K8S_POD_UID', 'a uid', { value: podUid, list });
  return list.finish(() => {
    const args: { -readonly [K in keyof CniArgs]: CniArgs[K] } = { podNamespace };
    if (podName) args.podName = podName;
    if (podUid) args.podUid = podUid;
    return args;
  });
}

function addProblem(key: string, what: string, found: { readonly value: string; readonly list: ProblemList }): void {
  found.list.add(`CNI_ARGS.${key}`, `must be ${what}, got ${quoteValue(found.value)}`);
}

interface OurPairs {
  K8S_POD_NAME: string | undefined;
  K8S_POD_NAMESPACE: string | undefined;
  K8S_POD_UID: string | undefined;
}

// Our keys only; an empty value is as good as none. Every ADD and DEL waits for it: nothing is made but what is asked for.
function readPairs(text: string, list: ProblemList): OurPairs {
  const pairs: OurPairs = { K8S_POD_NAME: undefined, K8S_POD_NAMESPACE: undefined, K8S_POD_UID: undefined };
  for (let start = 0, end = 0; start < text.length; start = end + 1) {
    end = text.indexOf(';', start);
    if (end < 0) end = text.length;
    if (end === start) continue;
    const equals = text.indexOf('=', start);
    if (equals <= start || equals > end) {
      list.add('CNI_ARGS', 'must be pairs "KEY=VALUE" with ";" between them; one has no "="');
      continue;
    }
    if (!text.startsWith('K8S_POD_', start)) continue;
    const key = text.slice(start, equals);
    if (key !== 'K8S_POD_NAME' && key !== 'K8S_POD_NAMESPACE' && key !== 'K8S_POD_UID') continue;
    if (pairs[key] !== undefined) list.add(`CNI_ARGS.${key}`, 'is given twice');
    pairs[key] = text.slice(equals + 1, end);
  }
  return pairs;
}
