// The mesh hop's TLS, both ends. A cluster holds nothing of any pod: the client's certificate is named by the connection
// and fetched at the handshake. Fields: envoy/extensions/transport_sockets/tls/v3.

import { ConfigSchema as FilterStateMapperSchema } from '../gen/envoy/extensions/transport_sockets/tls/cert_mappers/filter_state_override/v3/config_pb.js';
import { StaticNameSchema } from '../gen/envoy/extensions/transport_sockets/tls/cert_mappers/static_name/v3/config_pb.js';
import { ConfigSchema as SelectorSchema } from '../gen/envoy/extensions/transport_sockets/tls/cert_selectors/on_demand_secret/v3/config_pb.js';
import { SubjectAltNameMatcher_SanType } from '../gen/envoy/extensions/transport_sockets/tls/v3/common_pb.js';
import {
  DownstreamTlsContextSchema,
  UpstreamTlsContextSchema,
} from '../gen/envoy/extensions/transport_sockets/tls/v3/tls_pb.js';
import { NO_IDENTITY_SECRET, trustBundleName, workloadIdPrefix } from '../mesh/names.ts';
import { extension, filter, fromAds } from './envoy-values.ts';

const TLS = 'envoy.transport_sockets.tls';

/** The client's end. */
export interface UpstreamTls {
  readonly trustDomain: string;
  /** SPIFFE ids that the server may have; one of them must be in its certificate. */
  readonly serverIds: readonly string[];
  /** Empty: none is sent, and the destination's floor takes the connection. */
  readonly serverName: string;
  readonly alpn: readonly string[];
}

export function upstreamTls(options: UpstreamTls) {
  return filter(TLS, UpstreamTlsContextSchema, {
    sni: options.serverName,
    // A session kept for one pod must never be resumed for another, so none is kept.
    maxSessionKeys: 0,
    commonTlsContext: {
      alpnProtocols: [...options.alpn],
      customTlsCertificateSelector: selectCertificate(namedByConnection()),
      validationContextType: validation(
        options.trustDomain,
        options.serverIds.map((id) => ({ case: 'exact' as const, value: id })),
      ),
    },
  });
}

/**
 * The server's end: a certificate of a workload of the trust domain is required, nothing less gets a byte through. The own
 * certificate comes by the same selector as the client's: a secret that an ordinary SDS reference watches already would not
 * be asked for again by a selector, and the same pod could not be a client. Selectors exclude session resumption.
 */
export function downstreamTls(options: { readonly trustDomain: string; readonly identity: string }) {
  return filter(TLS, DownstreamTlsContextSchema, {
    requireClientCertificate: true,
    sessionTicketKeysType: { case: 'disableStatelessSessionResumption', value: true },
    disableStatefulSessionResumption: true,
    commonTlsContext: {
      customTlsCertificateSelector: selectCertificate(namedHere(options.identity)),
      validationContextType: validation(options.trustDomain, [
        { case: 'prefix', value: workloadIdPrefix(options.trustDomain) },
      ]),
    },
  });
}

function selectCertificate(certificateMapper: ReturnType<typeof namedHere>) {
  return extension('on_demand_secret', SelectorSchema, {
    configSource: fromAds(),
    certificateMapper,
  });
}

// The default names a secret that is never served: a chain that does not say who calls gets no certificate.
function namedByConnection() {
  return extension('filter_state_override', FilterStateMapperSchema, {
    defaultValue: NO_IDENTITY_SECRET,
  });
}

function namedHere(identity: string) {
  return extension('static_name', StaticNameSchema, { name: identity });
}

type UriPattern = { readonly case: 'exact' | 'prefix'; readonly value: string };

function validation(trustDomain: string, patterns: readonly UriPattern[]) {
  return {
    case: 'combinedValidationContext' as const,
    value: {
      defaultValidationContext: {
        matchTypedSubjectAltNames: patterns.map((pattern) => ({
          sanType: SubjectAltNameMatcher_SanType.URI,
          matcher: { matchPattern: pattern },
        })),
      },
      validationContextSdsSecretConfig: { name: trustBundleName(trustDomain), sdsConfig: fromAds() },
    },
  };
}
