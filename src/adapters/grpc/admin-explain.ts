// The rpc Explain: a pod of this node and a destination in, the explanation out.

import type { AgentPod } from '../../agent/agent-pod.ts';
import { explainDestination } from '../../agent/explain.ts';
import { judgeNow } from '../../agent/explain-obstacles.ts';
import type { NodeAgent } from '../../agent/node-agent.ts';
import { listPodProblems } from '../../agent/node-status.ts';
import { compareText } from '../../core/compare.ts';
import { AgentError } from '../../core/errors.ts';
import { isNamedBy } from '../../core/pod-subject.ts';
import type { ExplainRequest, ExplainResponse } from '../../gen/aether/admin/v1/admin_pb.js';
import { explanationToMessage } from './proto-explanation.ts';

/** Rejects with AgentError (`rejected`: no such pod) and InputError (no such form of a destination). */
export async function explain(agent: NodeAgent, request: ExplainRequest): Promise<ExplainResponse> {
  const pod = findPod(agent, request.pod);
  const { namespace, name } = pod.workload.record;
  const { node, vipRanges } = agent.settings;
  const explanation = explainDestination(
    request.destination,
    { namespace, name, resourceName: pod.node.resourceName, policy: pod.policy },
    {
      node,
      services: await agent.catalog.readWholeViews(),
      unanswered: vipRanges,
      problems: listPodProblems(agent, pod),
    },
  );
  const { snapshot, leftOut } = agent;
  return explanationToMessage(await judgeNow(explanation, { snapshot, leftOut, publisher: agent.deps.publisher }));
}

// Of two pods of one name the younger has the listeners.
function findPod(agent: NodeAgent, text: string): AgentPod {
  const pods = agent.listPods();
  const nameOf = ({ workload: { record } }: AgentPod): string => `${record.namespace}/${record.name}`;
  const found = pods.findLast(({ workload: { record } }) => isNamedBy(record, text));
  if (found !== undefined) return found;
  const names = [...new Set(pods.map(nameOf))].sort(compareText);
  const known = names.length === 0 ? 'there are none' : `there are ${names.slice(0, 20).join(', ')}`;
  throw new AgentError('rejected', `no pod ${JSON.stringify(text)} of the mesh on this node; ${known}`);
}
