// Where a pod's application is: a port of its loopback, reached by a socket made in its namespace, or a Unix socket of its own.
import { socketAddress } from './envoy-values.ts';
import type { NodePod } from './input.ts';

/** The fields of a static cluster that lead to the application's port; a pod on a Unix socket has one for all ports. */
export function reachApp(clusterName: string, { udsPath, netnsPath }: NodePod, port: number) {
  if (udsPath !== undefined) {
    return { loadAssignment: oneEndpoint(clusterName, { case: 'pipe' as const, value: { path: udsPath } }) };
  }
  return {
    // The bind makes the socket in the pod's namespace.
    upstreamBindConfig: { sourceAddress: socketAddress('127.0.0.1', 0, { netns: netnsPath }) },
    loadAssignment: oneEndpoint(clusterName, {
      case: 'socketAddress' as const,
      value: socketAddress('127.0.0.1', port),
    }),
  };
}

type Address =
  | { readonly case: 'pipe'; readonly value: { readonly path: string } }
  | { readonly case: 'socketAddress'; readonly value: ReturnType<typeof socketAddress> };

function oneEndpoint(clusterName: string, address: Address) {
  const endpoint = { hostIdentifier: { case: 'endpoint' as const, value: { address: { address } } } };
  return { clusterName, endpoints: [{ lbEndpoints: [endpoint] }] };
}
