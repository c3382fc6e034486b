// Our DER against what the standards print, node:crypto and openssl. A thousand leaves, since the bytes of a number hang on
// the bits that happen to be drawn.
import { execFileSync } from 'node:child_process';
import { generateKeyPairSync, X509Certificate } from 'node:crypto';
import t from 'tap';
import { contentOf, encodeDer, encodeOid, encodeTime, listDer, TAG } from '../../../src/adapters/identity/der.ts';
import { describeIssuer, issueLeaf } from '../../../src/adapters/identity/leaf-certificate.ts';
import { makeRootCertificate } from '../../../src/adapters/identity/root-certificate.ts';

const hex = (bytes: Buffer): string => bytes.toString('hex');

t.test('encodeOid() and encodeTime() write what the standards show', (t) => {
  t.equal(hex(encodeOid('1.2.840.113549')), '06062a864886f70d'); // X.690, 8.19.5
  t.equal(hex(encodeOid('2.5.29.17')), '0603551d11');
  t.equal(encodeTime(new Date('2049-12-31T23:59:59.999Z')).toString('latin1', 2), '491231235959Z');
  t.equal(encodeTime(new Date('2050-01-01T00:00:00Z')).toString('latin1'), '\x18\x0f20500101000000Z');
  t.end();
});

t.test('encodeDer() and listDer() agree at every size of a length', (t) => {
  for (const size of [0, 1, 127, 128, 255, 256, 65_535]) {
    const value = encodeDer(TAG.octetString, Buffer.alloc(size, 7));
    const whole = encodeDer(TAG.sequence, value, encodeDer(TAG.integer, Buffer.of(1)));
    const [first, second] = listDer(whole);
    t.equal(contentOf(first ?? Buffer.alloc(2)).length, size, `${size} bytes`);
    t.equal(hex(second ?? Buffer.alloc(0)), '020101');
  }
  t.throws(() => listDer(Buffer.from('3003040500', 'hex')), RangeError);
  t.end();
});

t.test('issueLeaf() is accepted a thousand times, whatever numbers it draws', async (t) => {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const keyPem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
  const [notBefore, notAfter] = [new Date(Date.now() - 1000), new Date(Date.now() + 3_600_000)];
  const rootPem = await makeRootCertificate(keyPem, { trustDomain: 'aether.internal', notBefore, notAfter });
  const root = new X509Certificate(rootPem);
  const issuer = describeIssuer(root, privateKey);
  const serials = new Set<string>();
  for (let i = 0; i < 1000; i++) {
    const identity = `spiffe://aether.internal/ns/demo/sa/s${i}`;
    const { certificatePem } = issueLeaf(issuer, { identity, notBefore, notAfter });
    const certificate = new X509Certificate(certificatePem);
    if (!certificate.checkIssued(root) || !certificate.verify(root.publicKey)) t.fail(`not issued: ${certificatePem}`);
    if (certificate.subjectAltName !== `URI:${identity}`) t.fail(`names ${certificate.subjectAltName}`);
    serials.add(certificate.serialNumber);
  }
  t.equal(serials.size, 1000);
  const { certificatePem } = issueLeaf(issuer, { identity: 'spiffe://aether.internal/ns/a/sa/b', notBefore, notAfter });
  const text = execFileSync('openssl', ['x509', '-noout', '-text'], { input: certificatePem, encoding: 'utf8' });
  const keyId = /Subject Key Identifier: *\n *([0-9A-F:]+)/;
  const rootText = execFileSync('openssl', ['x509', '-noout', '-text'], { input: rootPem, encoding: 'utf8' });
  t.match(text, new RegExp(`Authority Key Identifier: *\\n *(keyid:)?${keyId.exec(rootText)?.[1]}`));
});
