// An object of libnftnl, freed exactly once: at the end of its scope, unless another object has taken it.
import { NativeError } from '../../core/errors.ts';
import type { NativeLibrary } from './native-library.ts';

type Kind = 'table' | 'chain' | 'set' | 'rule' | 'expr';

/** Owns one libnftnl object. Use with `using`. */
export class Handle implements Disposable {
  readonly #native: NativeLibrary;
  readonly #kind: Kind;
  #pointer: bigint;

  private constructor(native: NativeLibrary, kind: Kind, pointer: bigint) {
    if (pointer === 0n) throw new NativeError(`allocate nftnl_${kind}: out of memory, or unknown to this libnftnl`);
    this.#native = native;
    this.#kind = kind;
    this.#pointer = pointer;
  }

  static allocate(native: NativeLibrary, kind: Exclude<Kind, 'expr'>): Handle {
    return new Handle(native, kind, native.call(`nftnl_${kind}_alloc`));
  }

  static allocateExpression(native: NativeLibrary, name: string): Handle {
    return new Handle(native, 'expr', native.call('nftnl_expr_alloc', name));
  }

  /** The address, for one call; 0n never. */
  get pointer(): bigint {
    if (this.#pointer === 0n) throw new NativeError(`use nftnl_${this.#kind}: it is freed or taken`);
    return this.#pointer;
  }

  /** Gives the object away to a function that takes it: it is not freed here any more. */
  take(): bigint {
    const { pointer } = this;
    this.#pointer = 0n;
    return pointer;
  }

  [Symbol.dispose](): void {
    if (this.#pointer !== 0n) this.#native.call(`nftnl_${this.#kind}_free`, this.take());
  }
}
