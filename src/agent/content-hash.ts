// Versions of resources: a hash of the content, so that an agent that comes back sends nothing that Envoy has already.
import { createHash } from 'node:crypto';

/** 16 hex digits of SHA-256; the same in every process. */
export function hashContent(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex').slice(0, 16);
}
