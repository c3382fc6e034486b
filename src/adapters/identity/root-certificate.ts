// Makes the root of an embedded authority. Loaded only when there is none yet: the library that it takes is large.
import 'reflect-metadata';
import { createPrivateKey, createPublicKey, webcrypto } from 'node:crypto';
import {
  BasicConstraintsExtension,
  KeyUsageFlags,
  KeyUsagesExtension,
  SubjectAlternativeNameExtension,
  SubjectKeyIdentifierExtension,
  X509CertificateGenerator,
} from '@peculiar/x509';

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };

/** Self-signed with the key, an ECDSA P-256 one. */
export async function makeRootCertificate(
  keyPem: string,
  options: { readonly trustDomain: string; readonly notBefore: Date; readonly notAfter: Date },
): Promise<string> {
  const { trustDomain, notBefore, notAfter } = options;
  const keys = await importKeys(keyPem);
  const certificate = await X509CertificateGenerator.createSelfSigned({
    name: [{ O: ['aether-cni'] }, { CN: [`${trustDomain} root`] }],
    notBefore,
    notAfter,
    keys,
    signingAlgorithm: ALGORITHM,
    extensions: [
      new BasicConstraintsExtension(true, 0, true),
      new KeyUsagesExtension(KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign, true),
      new SubjectAlternativeNameExtension([{ type: 'url', value: `spiffe://${trustDomain}` }]),
      await SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return `${certificate.toString('pem')}\n`;
}

async function importKeys(keyPem: string): Promise<webcrypto.CryptoKeyPair> {
  const key = createPrivateKey(keyPem);
  const pkcs8 = key.export({ type: 'pkcs8', format: 'der' });
  const spki = createPublicKey(key).export({ type: 'spki', format: 'der' });
  return {
    privateKey: await webcrypto.subtle.importKey('pkcs8', pkcs8, ALGORITHM, true, ['sign']),
    publicKey: await webcrypto.subtle.importKey('spki', spki, ALGORITHM, true, ['verify']),
  };
}
