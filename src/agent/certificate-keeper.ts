// Certificates of the identities on this node: one for each identity, whatever the number of its pods, renewed in time.
// Keys live here and in the snapshot; nothing of them is logged.
import { compareText } from '../core/compare.ts';
import { messageOf } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import type { WorkloadCertificate } from '../xds/input.ts';
import type { CertificateAuthority, Clock } from './deps.ts';

const FIRST_RETRY_MS = 1000;
const LAST_RETRY_MS = 60_000;

export interface CertificateKeeperOptions {
  readonly authority: CertificateAuthority;
  readonly clock: Clock;
  readonly log: Log;
  /** A certificate was renewed, or came after all. */
  readonly onChange: () => void;
}

interface Kept {
  certificate: WorkloadCertificate | undefined;
  /** Being issued now. */
  pending: Promise<void> | undefined;
  timer: Disposable | undefined;
}

/** An identity is kept from its first `ensure` to its `drop`; disposing ends the renewals. */
export class CertificateKeeper {
  readonly #options: CertificateKeeperOptions;
  readonly #kept = new Map<string, Kept>();

  constructor(options: CertificateKeeperOptions) {
    this.#options = options;
  }

  get trustBundlePem(): string {
    return this.#options.authority.trustBundlePem;
  }

  /** Those that are issued, sorted by identity; an unchanged one is the same object. */
  list(): readonly WorkloadCertificate[] {
    const issued = [...this.#kept.values()].flatMap(({ certificate }) => certificate ?? []);
    return issued.sort((a, b) => compareText(a.identity, b.identity));
  }

  /** Whether a certificate is wanted but not there yet: Envoy may wait for it. */
  isPending(identity: string): boolean {
    const kept = this.#kept.get(identity);
    return kept !== undefined && kept.certificate === undefined;
  }

  /** Issues a certificate where there is none, and keeps it fresh until it is dropped. Throws IdentityError; it is tried again then. */
  async ensure(identity: string): Promise<void> {
    const kept = this.#kept.get(identity) ?? { certificate: undefined, pending: undefined, timer: undefined };
    this.#kept.set(identity, kept);
    if (kept.certificate !== undefined) return;
    // Pods of one identity come in crowds; one certificate is for all.
    kept.pending ??= this.#issue(identity, kept, FIRST_RETRY_MS).finally(() => {
      kept.pending = undefined;
    });
    await kept.pending;
  }

  /** No pod of the identity is left. */
  drop(identity: string): void {
    this.#kept.get(identity)?.timer?.[Symbol.dispose]();
    this.#kept.delete(identity);
  }

  [Symbol.dispose](): void {
    for (const identity of [...this.#kept.keys()]) this.drop(identity);
  }

  async #issue(identity: string, kept: Kept, retryMs: number): Promise<void> {
    const { authority, clock, log } = this.#options;
    try {
      const { renewAt, ...certificate } = await authority.issue(identity);
      if (this.#kept.get(identity) !== kept) return;
      kept.certificate = certificate;
      this.#schedule(identity, kept, { delayMs: renewAt.getTime() - clock.now().getTime(), retryMs: FIRST_RETRY_MS });
      log.info('agent.certificate.issued', { identity, renewAt: renewAt.toISOString() });
    } catch (error) {
      log.error('agent.certificate.failed', { identity, retryMs, reason: messageOf(error) });
      if (this.#kept.get(identity) === kept) {
        this.#schedule(identity, kept, { delayMs: retryMs, retryMs: Math.min(retryMs * 2, LAST_RETRY_MS) });
      }
      throw error;
    }
  }

  #schedule(identity: string, kept: Kept, { delayMs, retryMs }: { delayMs: number; retryMs: number }): void {
    kept.timer?.[Symbol.dispose]();
    kept.timer = this.#options.clock.after(delayMs, () => {
      this.#issue(identity, kept, retryMs).then(this.#options.onChange, () => {});
    });
  }
}
