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
  const [podNamespace, podName, podUid] = readValues(text, list);
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

const OUR_KEYS = ['K8S_POD_NAMESPACE', 'K8S_POD_NAME', 'K8S_POD_UID'] as const;
type Values = [string | undefined, string | undefined, string | undefined];

// Of OUR_KEYS, in their order; an empty value is as good as none. Every ADD and DEL waits for it: nothing is made but what is
// asked for, and no text becomes the key of an object.
function readValues(text: string, list: ProblemList): Values {
  const values: Values = [undefined, undefined, undefined];
  for (let start = 0, end = 0; start < text.length; start = end + 1) {
    end = text.indexOf(';', start);
    if (end < 0) end = text.length;
    if (end === start) continue;
    const equals = text.indexOf('=', start);
    if (equals <= start || equals > end) {
      list.add('CNI_ARGS', 'must be pairs "KEY=VALUE" with ";" between them; one has no "="');
      continue;
    }
    for (let index = 0; index < OUR_KEYS.length; index++) {
      const key = OUR_KEYS[index] as string;
      if (key.length !== equals - start || !text.startsWith(key, start)) continue;
      if (values[index] !== undefined) list.add(`CNI_ARGS.${key}`, 'is given twice');
      values[index] = text.slice(equals + 1, end);
    }
  }
  return values;
}
