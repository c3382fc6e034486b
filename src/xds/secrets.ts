// Secrets: the pods' certificates, each named by its SPIFFE id, and the trust bundle.
import { create } from '@bufbuild/protobuf';
import { type Secret, SecretSchema } from '../gen/envoy/extensions/transport_sockets/tls/v3/secret_pb.js';
import { trustBundleName } from '../mesh/names.ts';
import type { WorkloadCertificate } from './input.ts';

export function buildCertificateSecret(certificate: WorkloadCertificate): Secret {
  return create(SecretSchema, {
    name: certificate.identity,
    type: {
      case: 'tlsCertificate',
      value: {
        certificateChain: inline(certificate.certificateChainPem),
        privateKey: inline(certificate.privateKeyPem),
      },
    },
  });
}

export function buildTrustBundleSecret(trustDomain: string, pem: string): Secret {
  return create(SecretSchema, {
    name: trustBundleName(trustDomain),
    type: { case: 'validationContext', value: { trustedCa: inline(pem) } },
  });
}

function inline(value: string) {
  return { specifier: { case: 'inlineString' as const, value } };
}
