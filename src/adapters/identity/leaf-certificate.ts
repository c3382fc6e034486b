// A workload's certificate (RFC 5280; X509-SVID 1.0): all of them have one form, so it is written directly. Making one by a
// library for certificates of any form costs ten times as much, in the moment in which a pod starts.
import { Buffer } from 'node:buffer';
import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign, type X509Certificate } from 'node:crypto';
import { contentOf, encodeDer, encodeOid, encodeTime, listDer, TAG } from './der.ts';

/** Who signs. */
export interface Issuer {
  /** DER of its Name. */
  readonly subject: Buffer;
  readonly keyId: Buffer;
  readonly key: KeyObject;
}

export interface Leaf {
  readonly certificatePem: string;
  readonly privateKeyPem: string;
}

/** ECDSA P-256: the public half as DER of its SubjectPublicKeyInfo, the private one as PEM (PKCS #8). */
export function makeKeyPair() {
  return generateKeyPairSync('ec', {
    namedCurve: 'P-256',
    publicKeyEncoding: { type: 'spki', format: 'der' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  });
}

/** The issuer behind a self-signed certificate. */
export function describeIssuer(certificate: X509Certificate, key: KeyObject): Issuer {
  const [body = Buffer.alloc(0)] = listDer(certificate.raw);
  // version, serialNumber, signature, issuer, validity, subject (4.1)
  const subject = listDer(body)[5] ?? Buffer.alloc(0);
  return { subject, keyId: keyIdOf(certificate.publicKey.export({ type: 'spki', format: 'der' })), key };
}

/** A fresh key pair and its certificate. `identity`: ASCII, the only name that it has. */
export function issueLeaf(
  issuer: Issuer,
  { identity, notBefore, notAfter }: { readonly identity: string; readonly notBefore: Date; readonly notAfter: Date },
): Leaf {
  const { publicKey: spki, privateKey } = makeKeyPair();
  const body = sequence(
    encodeDer(TAG.contextConstructed(0), encodeDer(TAG.integer, Buffer.of(2))),
    encodeDer(TAG.integer, serialNumber()),
    ECDSA_WITH_SHA256,
    issuer.subject,
    sequence(encodeTime(notBefore), encodeTime(notAfter)),
    sequence(),
    spki,
    encodeDer(TAG.contextConstructed(3), sequence(...listExtensions(issuer, { spki, identity }))),
  );
  const signature = encodeDer(TAG.bitString, Buffer.of(0), sign('sha256', body, issuer.key));
  return { certificatePem: toPem(sequence(body, ECDSA_WITH_SHA256, signature)), privateKeyPem: privateKey };
}

const sequence = (...contents: readonly Uint8Array[]): Buffer => encodeDer(TAG.sequence, ...contents);
const ECDSA_WITH_SHA256 = sequence(encodeOid('1.2.840.10045.4.3.2'));

const BASIC_CONSTRAINTS = extension('2.5.29.19', sequence(), { critical: true });
/** digitalSignature: the first bit of eight. */
const KEY_USAGE = extension('2.5.29.15', encodeDer(TAG.bitString, Buffer.of(7, 0x80)), { critical: true });
const EXTENDED_KEY_USAGE = extension(
  '2.5.29.37',
  sequence(encodeOid('1.3.6.1.5.5.7.3.2'), encodeOid('1.3.6.1.5.5.7.3.1')),
);

function listExtensions(
  { keyId }: Issuer,
  { spki, identity }: { readonly spki: Buffer; readonly identity: string },
): readonly Buffer[] {
  const uri = encodeDer(TAG.context(6), Buffer.from(identity, 'latin1'));
  return [
    BASIC_CONSTRAINTS,
    KEY_USAGE,
    EXTENDED_KEY_USAGE,
    // Critical, because without a subject it is the only name (4.2.1.6).
    extension('2.5.29.17', sequence(uri), { critical: true }),
    extension('2.5.29.14', encodeDer(TAG.octetString, keyIdOf(spki))),
    extension('2.5.29.35', sequence(encodeDer(TAG.context(0), keyId))),
  ];
}

function extension(oid: string, value: Buffer, { critical = false }: { readonly critical?: boolean } = {}): Buffer {
  const flag = critical ? [encodeDer(TAG.boolean, Buffer.of(0xff))] : [];
  return sequence(encodeOid(oid), ...flag, encodeDer(TAG.octetString, value));
}

// 4.2.1.2, method 1: SHA-1 of the key's bits, without the count of unused ones before them.
function keyIdOf(spki: Buffer): Buffer {
  const bits = contentOf(listDer(spki)[1] ?? Buffer.alloc(2));
  return createHash('sha1').update(bits.subarray(1)).digest();
}

// Positive, and never shorter than it says: the first byte is 0x40 to 0x7f.
function serialNumber(): Buffer {
  const bytes = randomBytes(16);
  bytes.writeUInt8((bytes.readUInt8(0) & 0x3f) | 0x40, 0);
  return bytes;
}

function toPem(der: Buffer): string {
  const lines = der.toString('base64').match(/.{1,64}/g) ?? [];
  return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`;
}
