// The rpc Explain: a pod of this node and a destination in, the explanation out.
import type { AgentPod } from '../../agent/agent-pod.ts';
import { explainDestination } from '../../agent/explain.ts';
import type { NodeAgent } from '../../agent/node-agent.ts';
import { listPodProblems } from '../../agent/node-status.ts';
import { compareText } from '../../core/compare.ts';
import { AgentError } from '../../core/errors.ts';
import type { ExplainRequest, ExplainResponse } from '../../gen/aether/admin/v1/admin_pb.js';
import { explanationToMessage } from './proto-explanation.ts';

/** Throws AgentError (`rejected`: no such pod) and InputError (no such form of a destination). */
export function explain(agent: NodeAgent, request: ExplainRequest): ExplainResponse {
  const pod = findPod(agent, request.pod);
  const { record } = pod.workload;
  const problems = listPodProblems(agent, pod);
  const proxy =
    agent.deps.publisher.streams > 0 ? [] : ['no proxy is connected: what is captured goes nowhere until one is'];
  // The rule that explains is the split form's. What a spelling means is the same in both; names and places are not.
  const form =
    agent.settings.node.captureForm === 'single'
      ? [
          'this node captures in the single form: Envoy does what is said of table aether_mesh, with clusters by service name',
        ]
      : [];
  const explanation = explainDestination(
    request.destination,
    {
      namespace: record.namespace,
      name: record.name,
      resourceName: pod.node.resourceName,
      policy: pod.policy,
    },
    {
      node: agent.settings.node,
      services: agent.catalog.views,
      // In the single form the agent writes nothing into pods.
      unanswered: agent.settings.node.captureForm === 'single' ? [] : agent.settings.vipRanges,
      problems: [...proxy, ...form, ...problems],
    },
  );
  return explanationToMessage(explanation);
}

// Of two pods of one name the younger has the listeners.
function findPod(agent: NodeAgent, text: string): AgentPod {
  const pods = agent.listPods();
  const nameOf = ({ workload: { record } }: AgentPod): string => `${record.namespace}/${record.name}`;
  const found = pods.findLast((pod) => nameOf(pod) === text || pod.workload.record.containerId === text);
  if (found !== undefined) return found;
  const names = [...new Set(pods.map(nameOf))].sort(compareText);
  const known = names.length === 0 ? 'there are none' : `there are ${names.slice(0, 20).join(', ')}`;
  throw new AgentError('rejected', `no pod ${JSON.stringify(text)} of the mesh on this node; ${known}`);
}
