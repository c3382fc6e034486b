// What is configured, accepted and yet does nothing on this node: said once a service, or it would look like a fault.
import type { Log } from '../core/log.ts';
import { formatServiceKey } from '../mesh/names.ts';
import type { ServiceView } from '../mesh/service-view.ts';

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

  constructor(log: Log) {
    this.#log = log;
  }

  /** Looks at all services; cheap, and silent about what it has said. */
  check(views: readonly ServiceView[], { hasScopedPod, tcp }: NodeCapture): void {
    for (const view of views) {
      if (view.tcpDefault === undefined) continue;
      const ports = view.tcp.map(({ port }) => port);
      if (!tcp) this.#warnOnce('agent.service.tcp_without_identity', view, ports);
      // Proposal 037, risk 7: the default port has the TCP mesh port, the others are not captured.
      const others = ports.filter((port) => port !== view.tcpDefault?.port);
      if (tcp && hasScopedPod && others.length > 0) this.#warnOnce('agent.service.tcp_not_captured', view, others);
    }
  }

  #warnOnce(event: string, view: ServiceView, ports: readonly number[]): void {
    const service = formatServiceKey(view.key);
    if (this.#said.has(`${event} ${service}`)) return;
    this.#said.add(`${event} ${service}`);
    this.#log.warn(event, { service, ports });
  }
}
