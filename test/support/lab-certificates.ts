// Client certificates for attacks on the mesh hop: signed by the lab's own root or by a stranger's, for any name.
import 'reflect-metadata';
import { createPrivateKey, KeyObject, webcrypto } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { SubjectAlternativeNameExtension, X509Certificate, X509CertificateGenerator } from '@peculiar/x509';

/** PEM texts, as node:tls takes them. */
export interface ClientCertificate {
  readonly cert: string;
  readonly key: string;
}

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
const DAY_MS = 24 * 60 * 60 * 1000;

/** Signed with the root that lies in `caDir`, for `uri` (none: a certificate without any name). */
export async function signWithRootOf(caDir: string, uri: string | undefined): Promise<ClientCertificate> {
  const root = new X509Certificate(readFileSync(join(caDir, 'root.crt'), 'utf8'));
  const pkcs8 = createPrivateKey(readFileSync(join(caDir, 'root.key'))).export({ type: 'pkcs8', format: 'der' });
  const signingKey = await webcrypto.subtle.importKey('pkcs8', pkcs8, ALGORITHM, false, ['sign']);
  return issue({ issuer: root.subject, signingKey, uri });
}

/** Signed with a root that nobody has heard of, which carries the subject of the real one. */
export async function signWithStrangeRoot(caDir: string, uri: string): Promise<ClientCertificate> {
  const root = new X509Certificate(readFileSync(join(caDir, 'root.crt'), 'utf8'));
  const { privateKey } = await makeKeys();
  return issue({ issuer: root.subject, signingKey: privateKey, uri });
}

async function issue(options: {
  readonly issuer: string;
  readonly signingKey: webcrypto.CryptoKey;
  readonly uri: string | undefined;
}): Promise<ClientCertificate> {
  const keys = await makeKeys();
  const certificate = await X509CertificateGenerator.create({
    issuer: options.issuer,
    notBefore: new Date(Date.now() - DAY_MS),
    notAfter: new Date(Date.now() + DAY_MS),
    publicKey: keys.publicKey,
    signingKey: options.signingKey,
    signingAlgorithm: ALGORITHM,
    extensions:
      options.uri === undefined
        ? []
        : [new SubjectAlternativeNameExtension([{ type: 'url', value: options.uri }], true)],
  });
  return {
    cert: certificate.toString('pem'),
    key: KeyObject.from(keys.privateKey).export({ type: 'pkcs8', format: 'pem' }).toString(),
  };
}

async function makeKeys(): Promise<webcrypto.CryptoKeyPair> {
  return webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify']);
}
