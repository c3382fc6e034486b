// What a snapshot is made of: the pods of this node, the services they may reach, the node's own settings.
import type { WorkloadPorts } from '../mesh/port-protocols.ts';
import type { ServiceView } from '../mesh/service-view.ts';

/** A pod of this node, as its listeners need it. A pod whose namespace is not there (yet) is not in the input. */
export interface NodePod {
  /** `<ns>_<pod>` (podResourceName). */
  readonly resourceName: string;
  /** The pin. */
  readonly netnsPath: string;
  /** SPIFFE id, also the name of its certificate's secret. */
  readonly identity: string;
  readonly ports: WorkloadPorts;
  readonly redirectAll: boolean;
  /** Where the primary port, if it is HTTP, answers 200 when the application is well. Default `/`. */
  readonly healthPath?: string;
  /** Path of the socket where the application listens, whatever the port; absent: on its ports. */
  readonly udsPath?: string;
}

/** `mtls`: every hop is mTLS with both identities checked. `none`: cleartext HTTP, no TCP through the mesh. */
export type IdentityMode = 'mtls' | 'none';

/** Where an OTLP collector listens (gRPC). `name`: a host name, resolved by Envoy. */
export type CollectorAddress =
  | { readonly kind: 'ip' | 'name'; readonly host: string; readonly port: number }
  | { readonly kind: 'unix'; readonly path: string };

export type AccessLogSink =
  | { readonly kind: 'stdout' }
  | { readonly kind: 'file'; readonly path: string }
  | { readonly kind: 'otlp'; readonly address: CollectorAddress };

/** Failures are always logged; of what went well `successPercent` (0 to 100, two decimals count). */
export interface AccessLogSettings {
  readonly sink: AccessLogSink;
  readonly successPercent: number;
}

export interface NodeSettings {
  readonly meshDomain: string;
  readonly trustDomain: string;
  readonly identity: IdentityMode;
  /** Where this node is; endpoints nearer to it are preferred. Absent: all are alike. */
  readonly locality?: { readonly region: string; readonly zone: string };
  /** False on a node whose kernel has no IPv6 at all (no /proc/net/if_inet6): nothing binds an IPv6 address. Default true. */
  readonly ipv6?: boolean;
  /** Path of the socket where Envoy says which pods are healthy. Absent: it does not. */
  readonly healthSocket?: string;
  /** `single`: nothing is written to the pods' namespaces, Envoy alone decides. Default `split`. */
  readonly captureForm?: 'split' | 'single';
  /** TCP clusters are fetched at the first dial: less memory in a big mesh, some milliseconds more once. Default false. */
  readonly onDemandTcp?: boolean;
  /** Absent: none is kept. */
  readonly accessLog?: AccessLogSettings;
}

/** A workload's certificate: PEM texts. The key lives in memory and on the xDS socket only; it is never logged. */
export interface WorkloadCertificate {
  readonly identity: string;
  readonly certificateChainPem: string;
  readonly privateKeyPem: string;
}

/** Lists are sorted: pods by resource name, services by key, certificates by identity. */
export interface SnapshotInput {
  readonly node: NodeSettings;
  readonly pods: readonly NodePod[];
  readonly services: readonly ServiceView[];
  /** Services that are known but that Envoy is not given: their addresses count, and it may ask for them. */
  readonly others?: readonly ServiceView[];
  readonly certificates: readonly WorkloadCertificate[];
  /** PEM of the trust bundle; undefined with identity `none`. */
  readonly trustBundlePem?: string;
}
