// What is configured, accepted and yet does nothing on this node, or on others: said once a service, or it would look like a
// fault.
import { compareText } from '../core/compare.ts';
import { listFresh } from '../core/exchanged-list.ts';
import type { Log } from '../core/log.ts';
import { formatServiceKey, type ServiceKey } from '../mesh/names.ts';
import { hasTcpSuffix } from '../mesh/port-protocols.ts';
import type { ServiceView } from '../mesh/service-view.ts';
import type { AgentPod } from './agent-pod.ts';

const REASONS = {
  tcp_suffix:
    'agents that do not know "=tcp" yet take these ports for HTTP: bring those of other nodes up to date first',
  tcp_without_identity: 'with --identity none raw TCP does not cross the mesh: nobody reaches these ports',
  tcp_not_captured:
    'pods that are not captured completely reach only the default TCP port, as 18082: redirect-all reaches all',
};

export interface NodeCapture {
  /** Whether any pod of the node captures the mesh ports only. */
  readonly hasScopedPod: boolean;
  /** False with identity `none`: raw TCP does not cross the mesh. */
  readonly tcp: boolean;
}

/** One line in the log when something becomes so, not at each snapshot. */
export class ServiceWarner {
  readonly #log: Log;
  readonly #said = new Set<string>();
  /** What was looked at last, and under which state of the node. */
  #checked: readonly ServiceView[] = [];
  #state = '';

  constructor(log: Log) {
    this.#log = log;
  }

  /** Of a pod of this node. Proposal 037, risk 6: agents are to be rolled out before the suffix is used. */
  checkPod({ workload: { record, service, ports } }: AgentPod): void {
    if (!hasTcpSuffix(record.annotations)) return;
    const tcp = ports.served.filter(({ protocol }) => protocol === 'tcp').map(({ port }) => port);
    this.#warnOnce('tcp_suffix', service, tcp);
  }

  /** `views` in the order of their keys. Silent about what it has said. */
  check(views: readonly ServiceView[], { hasScopedPod, tcp }: NodeCapture): void {
    const state = `${hasScopedPod} ${tcp}`;
    const before = state === this.#state ? this.#checked : [];
    this.#state = state;
    this.#checked = views;
    const compare = (a: ServiceView, b: ServiceView) => compareText(formatServiceKey(a.key), formatServiceKey(b.key));
    for (const view of listFresh(views, before, { compare })) {
      if (view.tcpDefault === undefined) continue;
      const ports = view.tcp.map(({ port }) => port);
      if (!tcp) this.#warnOnce('tcp_without_identity', view.key, ports);
      // Proposal 037, risk 7: the default port has the TCP mesh port, the others are not captured.
      const others = ports.filter((port) => port !== view.tcpDefault?.port);
      if (tcp && hasScopedPod && others.length > 0) this.#warnOnce('tcp_not_captured', view.key, others);
    }
  }

  #warnOnce(what: keyof typeof REASONS, key: ServiceKey, ports: readonly number[]): void {
    const service = formatServiceKey(key);
    if (this.#said.has(`${what} ${service}`)) return;
    this.#said.add(`${what} ${service}`);
    this.#log.warn(`agent.service.${what}`, { service, ports, reason: REASONS[what] });
  }
}
