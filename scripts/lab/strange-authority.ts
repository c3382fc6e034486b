// A certificate authority that the mesh knows nothing of: certificates for the TLS of applications, and for strangers.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { systemClock } from '../../src/adapters/host/clock.ts';
import { openEmbeddedAuthority } from '../../src/adapters/identity/embedded-authority.ts';

export const STRANGE_DOMAIN = 'other.example';

/** Certificate and key as PEM, of a workload of the other trust domain. Its root lies in `<dir>/strange-ca`. */
export async function issueStrange(dir: string): Promise<{ readonly cert: string; readonly key: string }> {
  const options = { caDir: join(dir, 'strange-ca'), trustDomain: STRANGE_DOMAIN, clock: systemClock };
  const authority = await openEmbeddedAuthority(options);
  const issued = await authority.issue(`spiffe://${STRANGE_DOMAIN}/ns/demo/sa/client`);
  return { cert: issued.certificateChainPem, key: issued.privateKeyPem };
}

/** The variables by which an application of the lab finds its own certificate and key. */
export async function writeTlsFiles(dir: string): Promise<Readonly<Record<string, string>>> {
  const { cert, key } = await issueStrange(dir);
  const files = { LAB_TLS_CERT: join(dir, 'app.crt'), LAB_TLS_KEY: join(dir, 'app.key') };
  writeFileSync(files.LAB_TLS_CERT, cert);
  writeFileSync(files.LAB_TLS_KEY, key);
  return files;
}
