// Which calls are none of the mesh's business: they get their prevResult back before anything of the node is touched, so
// that the agent's own pod and those of the cluster's base start while the agent is away.
import type { CniArgs } from '../cni/cni-args.ts';
import type { NetConfig } from '../cni/net-config.ts';

/** Why the call passes through, as a sentence fragment; undefined: the agent decides. */
export function findPassThroughReason(
  { podNamespace, podName = '' }: CniArgs,
  { excludedNamespaces, agentPod }: Pick<NetConfig, 'excludedNamespaces' | 'agentPod'>,
): string | undefined {
  if (podNamespace === undefined) return 'it is not a pod of Kubernetes (CNI_ARGS names no namespace)';
  if (excludedNamespaces.has(podNamespace.toLowerCase())) return `the namespace "${podNamespace}" is excluded`;
  if (podNamespace === agentPod.namespace && podName.startsWith(agentPod.namePrefix))
    return 'it is the node agent itself';
  return undefined;
}
