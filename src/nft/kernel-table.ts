// A table as a kernel reports it: what the plan is compared with. Unlike the plan it can hold anything that somebody
// put there.
import type { Expression } from './expression.ts';

export interface KernelTable {
  readonly name: string;
  /** `flags dormant`: its chains are not hooked, nothing is captured. */
  readonly isDormant: boolean;
  readonly chains: readonly KernelChain[];
  readonly sets: readonly KernelSet[];
}

export interface KernelChain {
  readonly name: string;
  /** Absent: no base chain, only jumped to. */
  readonly base?: {
    /** `nat`, `filter`, `route` */
    readonly type: string;
    /** `output`; a hook without a name in our tables is `hook 1`. */
    readonly hook: string;
    readonly priority: number;
    readonly policy: 'accept' | 'drop';
  };
  readonly rules: readonly (readonly Expression[])[];
}

/** `elements` are in no order; those of sets that nobody asked for are left out. */
export interface KernelSet {
  readonly name: string;
  readonly keyType: number;
  readonly keyLength: number;
  /** NFT_SET_* bits (linux/netfilter/nf_tables.h). */
  readonly flags: number;
  readonly elements: readonly KernelElement[];
}

/** `isEnd`: the key after an interval's last. */
export interface KernelElement {
  readonly key: Uint8Array;
  readonly isEnd: boolean;
}
