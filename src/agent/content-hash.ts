// Versions of resources: a hash of the content, so that an agent that comes back sends nothing that Envoy has already.
import { hash } from 'node:crypto';

/** 16 hex digits of SHA-256; the same in every process. */
export function hashContent(bytes: Uint8Array): string {
  return hash('sha256', bytes, 'hex').slice(0, 16);
}
