// The certificate authority of a node that is complete by itself: a root key on disk, workload certificates in memory.
// SPIFFE X509-SVID shapes (spiffe.io, X509-SVID 1.0): the URI SAN is the identity, the subject is empty.
import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import type { CertificateAuthority, Clock } from '../../agent/deps.ts';
import { IdentityError, messageOf } from '../../core/errors.ts';
import { describeIssuer, type Issuer, issueLeaf, makeKeyPair } from './leaf-certificate.ts';
import { openRoot, type RootFiles } from './root-files.ts';

export interface EmbeddedAuthorityOptions {
  /** Made root-only when it is missing. Agents that talk to each other are given the same two files in it. */
  readonly caDir: string;
  readonly trustDomain: string;
  readonly clock: Pick<Clock, 'now'>;
  /** How long a workload's certificate is valid; it is renewed at half of it. Default 24 h. */
  readonly lifetimeMs?: number;
}

const DAY_MS = 24 * 60 * 60 * 1000;
const ROOT_LIFETIME_MS = 3650 * DAY_MS;
/** Clocks of two nodes differ a little. */
const BACKDATE_MS = 60_000;

/** Opens the authority, making its root at the first start. Throws IdentityError; an existing root is never replaced. */
export async function openEmbeddedAuthority(options: EmbeddedAuthorityOptions): Promise<CertificateAuthority> {
  try {
    const files = await openRoot(options.caDir, {
      makeKeyPem: async () => makeKeyPair().privateKey,
      makeCertificatePem: (keyPem) => makeRoot(keyPem, options),
    });
    return new EmbeddedAuthority(readRoot(files, options), options);
  } catch (error) {
    if (error instanceof IdentityError) throw error;
    throw new IdentityError(`opening the authority in ${options.caDir}: ${messageOf(error)}`, { cause: error });
  }
}

interface Root {
  readonly issuer: Issuer;
  readonly notAfterMs: number;
  readonly certificatePem: string;
}

class EmbeddedAuthority implements CertificateAuthority {
  readonly trustBundlePem: string;
  readonly #root: Root;
  readonly #options: EmbeddedAuthorityOptions;

  constructor(root: Root, options: EmbeddedAuthorityOptions) {
    this.#root = root;
    this.#options = options;
    this.trustBundlePem = root.certificatePem;
  }

  async issue(identity: string): ReturnType<CertificateAuthority['issue']> {
    if (!identity.startsWith(`spiffe://${this.#options.trustDomain}/`)) {
      throw new IdentityError(
        `issuing a certificate: ${identity} is not of the trust domain ${this.#options.trustDomain}`,
      );
    }
    const nowMs = this.#options.clock.now().getTime();
    const lifetimeMs = this.#options.lifetimeMs ?? DAY_MS;
    const endMs = Math.min(nowMs + lifetimeMs, this.#root.notAfterMs);
    if (endMs <= nowMs) throw new IdentityError('issuing a certificate: the root certificate is no longer valid');
    const validity = { notBefore: new Date(nowMs - BACKDATE_MS), notAfter: new Date(endMs) };
    const { certificatePem, privateKeyPem } = issueLeaf(this.#root.issuer, { identity, ...validity });
    return {
      identity,
      certificateChainPem: certificatePem,
      privateKeyPem,
      renewAt: new Date(nowMs + (endMs - nowMs) / 2),
    };
  }
}

async function makeRoot(keyPem: string, { trustDomain, clock }: EmbeddedAuthorityOptions): Promise<string> {
  readKey(keyPem);
  const nowMs = clock.now().getTime();
  const validity = { notBefore: new Date(nowMs - BACKDATE_MS), notAfter: new Date(nowMs + ROOT_LIFETIME_MS) };
  const { makeRootCertificate } = await import('./root-certificate.ts');
  return makeRootCertificate(keyPem, { trustDomain, ...validity });
}

function readKey(keyPem: string): KeyObject {
  const key = createPrivateKey(keyPem);
  if (key.asymmetricKeyType !== 'ec' || key.asymmetricKeyDetails?.namedCurve !== 'prime256v1') {
    throw new IdentityError('reading root.key: must be an ECDSA P-256 key');
  }
  return key;
}

/** What is on disk may come from an operator: it must be a root of this trust domain, with the key that lies beside it. */
function readRoot(files: RootFiles, options: EmbeddedAuthorityOptions): Root {
  const key = readKey(files.keyPem);
  const certificate = new X509Certificate(files.certificatePem);
  const notAfterMs = Date.parse(certificate.validTo);
  const problems: string[] = [];
  if (!certificate.checkPrivateKey(key)) problems.push('it does not belong to root.key');
  if (!certificate.ca) problems.push('it is no authority (CA:TRUE)');
  const names = (certificate.subjectAltName ?? '').split(', ');
  const want = `spiffe://${options.trustDomain}`;
  if (!names.includes(`URI:${want}`)) {
    problems.push(`it is not of this trust domain: no URI ${want}, found ${names.join(', ') || 'none'}`);
  }
  if (notAfterMs <= options.clock.now().getTime()) {
    problems.push(`it ended at ${new Date(notAfterMs).toISOString()}`);
  }
  if (problems.length > 0) throw new IdentityError(`reading ${files.certificatePath}: ${problems.join('; ')}`);
  return { issuer: describeIssuer(certificate, key), notAfterMs, certificatePem: files.certificatePem };
}
