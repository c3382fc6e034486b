// The root on a real disk: made once however many open it at a time, mended after a crash, refused where its parts do not
// fit. openssl takes its leaves for both sides of a connection.
import { execFile } from 'node:child_process';
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { chmod, mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { openEmbeddedAuthority } from '../../../src/adapters/identity/embedded-authority.ts';

const run = promisify(execFile);
const clock = { now: () => new Date() };
const IDENTITY = 'spiffe://aether.internal/ns/demo/sa/shop';

async function makeDir(t: Test): Promise<string> {
  const dir = await mkdtemp('/tmp/ae-ca-');
  t.teardown(() => rm(dir, { recursive: true, force: true }));
  return join(dir, 'ca');
}

const open = (caDir: string, trustDomain = 'aether.internal') => openEmbeddedAuthority({ caDir, trustDomain, clock });

t.test('openEmbeddedAuthority() makes the root once, root-only, and takes it again', async (t) => {
  const caDir = await makeDir(t);
  const all = await Promise.all([open(caDir), open(caDir), open(caDir)]);
  t.equal(new Set(all.map((authority) => authority.trustBundlePem)).size, 1, 'three at the same time have one root');
  t.equal((await open(caDir)).trustBundlePem, all[0]?.trustBundlePem);
  t.equal((await stat(caDir)).mode & 0o777, 0o700);
  t.strictSame((await readdir(caDir)).sort(), ['root.crt', 'root.key']);
  for (const file of await readdir(caDir)) t.equal((await stat(join(caDir, file))).mode & 0o777, 0o600, file);
  const root = new X509Certificate(all[0]?.trustBundlePem ?? '');
  t.equal(root.ca, true);
  t.equal(root.subjectAltName, 'URI:spiffe://aether.internal');
});

t.test('openEmbeddedAuthority() removes a key that a crash left half made, not one in the making', async (t) => {
  const caDir = await makeDir(t);
  await open(caDir);
  const [old, fresh] = ['0', '1'].map((digit) => `.root.key-${digit}f2e8ba5-3509-4b3f-a7c8-ea093f0c2080.tmp`);
  for (const name of [old, fresh]) await writeFile(join(caDir, name ?? ''), 'x');
  const hourAgo = Date.now() / 1000 - 3600;
  await utimes(join(caDir, old ?? ''), hourAgo, hourAgo);
  await open(caDir);
  t.strictSame((await readdir(caDir)).sort(), [fresh, 'root.crt', 'root.key']);
});

t.test('openEmbeddedAuthority() goes on with a key whose certificate was not written', async (t) => {
  const caDir = await makeDir(t);
  await open(caDir);
  const key = await readFile(join(caDir, 'root.key'), 'utf8');
  await rm(join(caDir, 'root.crt'));
  await chmod(join(caDir, 'root.key'), 0o644);
  const again = await open(caDir);
  t.equal(await readFile(join(caDir, 'root.key'), 'utf8'), key);
  t.ok(new X509Certificate(again.trustBundlePem).checkPrivateKey(createPrivateKey(key)));
  t.equal((await stat(join(caDir, 'root.key'))).mode & 0o777, 0o600);
});

t.test('openEmbeddedAuthority() rejects', async (t) => {
  const cases: readonly [string, (caDir: string) => Promise<void>, RegExp][] = [
    ['a certificate without its key', (dir) => rm(join(dir, 'root.key')), /root\.key: missing, though/],
    ['a key that is none', (dir) => writeFile(join(dir, 'root.key'), 'x'), /opening the authority in/],
    ['a certificate that is none', (dir) => writeFile(join(dir, 'root.crt'), 'x'), /opening the authority in/],
    [
      'a certificate of another key',
      async (dir) => {
        const other = await makeDir(t);
        await open(other);
        await writeFile(join(dir, 'root.crt'), await readFile(join(other, 'root.crt')));
      },
      /does not belong to root\.key/,
    ],
  ];
  for (const [name, spoil, want] of cases) {
    const caDir = await makeDir(t);
    await open(caDir);
    await spoil(caDir);
    await t.rejects(open(caDir), { code: 'E_IDENTITY', message: want }, name);
  }
  const caDir = await makeDir(t);
  await open(caDir);
  await t.rejects(
    open(caDir, 'other.example'),
    { message: /not of this trust domain/ },
    'a root of another trust domain',
  );
});

t.test('issue() gives a certificate that openssl accepts for both sides of a connection', async (t) => {
  const caDir = await makeDir(t);
  // A whole second, as certificates have it.
  const nowMs = Math.floor(Date.now() / 1000) * 1000;
  const stopped = { now: () => new Date(nowMs) };
  const authority = await openEmbeddedAuthority({ caDir, trustDomain: 'aether.internal', clock: stopped });
  const issued = await authority.issue(IDENTITY);
  const certificate = new X509Certificate(issued.certificateChainPem);
  t.equal(certificate.subjectAltName, `URI:${IDENTITY}`);
  t.equal(certificate.ca, false);
  t.ok(certificate.checkPrivateKey(createPrivateKey(issued.privateKeyPem)));
  t.equal(nowMs - Date.parse(certificate.validFrom), 60_000, 'valid since a minute');
  t.equal(Date.parse(certificate.validTo) - nowMs, 24 * 3600_000, 'valid for a day');
  t.equal(issued.renewAt.getTime() - nowMs, 12 * 3600_000, 'renewed at half of it');
  const file = join(caDir, 'leaf.pem');
  await writeFile(file, issued.certificateChainPem);
  const { stdout } = await run('openssl', ['x509', '-in', file, '-noout', '-text']);
  for (const want of [
    /Subject: *\n/,
    /Subject Alternative Name: critical\n *URI:spiffe:\/\/aether\.internal\/ns\/demo\/sa\/shop/,
    /Key Usage: critical\n *Digital Signature\n/,
    /TLS Web Client Authentication, TLS Web Server Authentication/,
    /Basic Constraints: critical\n *CA:FALSE/,
    /ASN1 OID: prime256v1/,
    /Signature Algorithm: ecdsa-with-SHA256/,
  ]) {
    t.match(stdout, want, String(want));
  }
  for (const purpose of ['sslclient', 'sslserver']) {
    const verify = ['verify', '-x509_strict', '-purpose', purpose, '-CAfile', join(caDir, 'root.crt'), file];
    t.match((await run('openssl', verify)).stdout, /leaf\.pem: OK/, purpose);
  }
});

t.test('issue() refuses an identity of another trust domain', async (t) => {
  const authority = await open(await makeDir(t));
  for (const identity of ['spiffe://evil/ns/a/sa/b', 'spiffe://aether.internal.evil/ns/a/sa/b', 'shop']) {
    await t.rejects(authority.issue(identity), { code: 'E_IDENTITY' }, identity);
  }
});
