// The certificate authority of a node that is complete by itself: a root key on disk, workload certificates in memory.
// SPIFFE X509-SVID shapes (spiffe.io, X509-SVID 1.0): the URI SAN is the identity, the subject is empty.
import 'reflect-metadata';
import { createPrivateKey, createPublicKey, KeyObject, webcrypto } from 'node:crypto';
import {
  AuthorityKeyIdentifierExtension,
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  KeyUsageFlags,
  KeyUsagesExtension,
  SubjectAlternativeNameExtension,
  SubjectKeyIdentifierExtension,
  X509Certificate,
  X509CertificateGenerator,
} from '@peculiar/x509';
import type { CertificateAuthority, Clock } from '../../agent/deps.ts';
import { IdentityError, messageOf } from '../../core/errors.ts';
import { openRoot, type RootFiles } from './root-files.ts';

export interface EmbeddedAuthorityOptions {
  /** Made root-only when it is missing. Agents that talk to each other are given the same two files in it. */
  readonly caDir: string;
  readonly trustDomain: string;
  readonly clock: Pick<Clock, 'now'>;
  /** How long a workload's certificate is valid; it is renewed at half of it. Default 24 h. */
  readonly lifetimeMs?: number;
}

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
const DAY_MS = 24 * 60 * 60 * 1000;
const ROOT_LIFETIME_MS = 3650 * DAY_MS;
/** Clocks of two nodes differ a little. */
const BACKDATE_MS = 60_000;

/** Opens the authority, making its root at the first start. Throws IdentityError; an existing root is never replaced. */
export async function openEmbeddedAuthority(options: EmbeddedAuthorityOptions): Promise<CertificateAuthority> {
  try {
    const files = await openRoot(options.caDir, {
      makeKeyPem: async () => exportKey((await makeKeys()).privateKey),
      makeCertificatePem: (keyPem) => makeRootCertificate(keyPem, options),
    });
    return new EmbeddedAuthority(await readRoot(files, options), options);
  } catch (error) {
    if (error instanceof IdentityError) throw error;
    throw new IdentityError(`opening the authority in ${options.caDir}: ${messageOf(error)}`, { cause: error });
  }
}

interface Root {
  readonly certificate: X509Certificate;
  readonly certificatePem: string;
  readonly signingKey: webcrypto.CryptoKey;
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
    const endMs = Math.min(nowMs + lifetimeMs, this.#root.certificate.notAfter.getTime());
    if (endMs <= nowMs) throw new IdentityError('issuing a certificate: the root certificate is no longer valid');
    const keys = await makeKeys();
    const certificate = await X509CertificateGenerator.create({
      issuer: this.#root.certificate.subject,
      notBefore: new Date(nowMs - BACKDATE_MS),
      notAfter: new Date(endMs),
      publicKey: keys.publicKey,
      signingKey: this.#root.signingKey,
      signingAlgorithm: ALGORITHM,
      extensions: [
        new BasicConstraintsExtension(false, undefined, true),
        new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
        new ExtendedKeyUsageExtension([ExtendedKeyUsage.clientAuth, ExtendedKeyUsage.serverAuth]),
        // Critical, because without a subject it is the only name (RFC 5280, 4.2.1.6).
        new SubjectAlternativeNameExtension([{ type: 'url', value: identity }], true),
        await SubjectKeyIdentifierExtension.create(keys.publicKey),
        await AuthorityKeyIdentifierExtension.create(this.#root.certificate.publicKey),
      ],
    });
    return {
      identity,
      certificateChainPem: `${certificate.toString('pem')}\n`,
      privateKeyPem: exportKey(keys.privateKey),
      renewAt: new Date(nowMs + (endMs - nowMs) / 2),
    };
  }
}

async function makeKeys(): Promise<webcrypto.CryptoKeyPair> {
  return webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify']);
}

function exportKey(key: webcrypto.CryptoKey): string {
  return KeyObject.from(key).export({ type: 'pkcs8', format: 'pem' }).toString();
}

async function importKeys(keyPem: string): Promise<webcrypto.CryptoKeyPair> {
  const key = createPrivateKey(keyPem);
  if (key.asymmetricKeyType !== 'ec' || key.asymmetricKeyDetails?.namedCurve !== 'prime256v1') {
    throw new IdentityError('reading root.key: must be an ECDSA P-256 key');
  }
  const pkcs8 = key.export({ type: 'pkcs8', format: 'der' });
  const spki = createPublicKey(key).export({ type: 'spki', format: 'der' });
  return {
    privateKey: await webcrypto.subtle.importKey('pkcs8', pkcs8, ALGORITHM, true, ['sign']),
    publicKey: await webcrypto.subtle.importKey('spki', spki, ALGORITHM, true, ['verify']),
  };
}

async function makeRootCertificate(keyPem: string, options: EmbeddedAuthorityOptions): Promise<string> {
  const keys = await importKeys(keyPem);
  const nowMs = options.clock.now().getTime();
  const certificate = await X509CertificateGenerator.createSelfSigned({
    name: [{ O: ['aether-cni'] }, { CN: [`${options.trustDomain} root`] }],
    notBefore: new Date(nowMs - BACKDATE_MS),
    notAfter: new Date(nowMs + ROOT_LIFETIME_MS),
    keys,
    signingAlgorithm: ALGORITHM,
    extensions: [
      new BasicConstraintsExtension(true, 0, true),
      new KeyUsagesExtension(KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign, true),
      new SubjectAlternativeNameExtension([{ type: 'url', value: `spiffe://${options.trustDomain}` }]),
      await SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return `${certificate.toString('pem')}\n`;
}

/** What is on disk may come from an operator: it must be a root of this trust domain, with the key that lies beside it. */
async function readRoot(files: RootFiles, options: EmbeddedAuthorityOptions): Promise<Root> {
  const keys = await importKeys(files.keyPem);
  const certificate = new X509Certificate(files.certificatePem);
  const problems: string[] = [];
  const spki = Buffer.from(await webcrypto.subtle.exportKey('spki', keys.publicKey));
  if (!spki.equals(Buffer.from(certificate.publicKey.rawData))) problems.push('it does not belong to root.key');
  if (certificate.getExtension(BasicConstraintsExtension)?.ca !== true) problems.push('it is no authority (CA:TRUE)');
  const names = certificate.getExtension(SubjectAlternativeNameExtension)?.names.items.map((name) => name.value) ?? [];
  const want = `spiffe://${options.trustDomain}`;
  if (!names.includes(want)) problems.push(`it is not of this trust domain: no URI ${want}, found ${names.join(', ')}`);
  if (certificate.notAfter <= options.clock.now()) problems.push(`it ended at ${certificate.notAfter.toISOString()}`);
  if (problems.length > 0) throw new IdentityError(`reading ${files.certificatePath}: ${problems.join('; ')}`);
  return { certificate, certificatePem: files.certificatePem, signingKey: keys.privateKey };
}
