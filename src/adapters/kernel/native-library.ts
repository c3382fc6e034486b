// Opens the native libraries and calls their functions through ffi-rs. Everything else in this folder sees typed
// functions; only here do names, types and memory of C meet JavaScript.
import { messageOf, NativeError } from '../../core/errors.ts';
import type { Ffi } from '../host/load-ffi.ts';
import { type Arguments, type CType, type Result, SYMBOLS, type SymbolName } from './symbols.ts';

/** Paths that dlopen takes. */
export interface NativeLibraryPaths {
  readonly libmnl: string;
  readonly libnftnl: string;
  readonly libaether: string;
}

/** The loaded libraries. They stay loaded for the life of the process. */
export interface NativeLibrary {
  /** Calls on this thread; for what takes microseconds. */
  call<N extends SymbolName>(name: N, ...args: Arguments<N>): Result<N>;
  /** Calls on a worker thread; buffers among the arguments stay alive and in place until it has answered. */
  callOffThread<N extends SymbolName>(name: N, ...args: Arguments<N>): Promise<Result<N>>;
}

const LIBRARIES = ['libmnl', 'libnftnl', 'libaether'] as const;

/**
 * Opens libmnl, libnftnl and libaether in this order: glibc takes what each needs from those loaded, by soname.
 * Throws NativeError.
 */
export function openNativeLibrary(paths: NativeLibraryPaths, ffi: Ffi): NativeLibrary {
  for (const library of LIBRARIES) {
    try {
      ffi.open({ library, path: paths[library] });
    } catch (cause) {
      throw new NativeError(`open ${library} at "${paths[library]}": ${messageOf(cause)}`, { cause });
    }
  }
  const prepare = prepareCalls(ffi);
  return {
    call: <N extends SymbolName>(name: N, ...args: Arguments<N>) =>
      // ffi-rs gives what `gives` says; its own types cannot express a table of functions.
      ffi.load({ ...prepare(name, args), runInNewThread: false }) as unknown as Result<N>,
    callOffThread: <N extends SymbolName>(name: N, ...args: Arguments<N>) => {
      const pending = ffi.load({ ...prepare(name, args), runInNewThread: true }) as unknown as Promise<Result<N>>;
      return holdUntilSettled(pending, args);
    },
  };
}

// The native side holds bare addresses: without this the collector may take a buffer while C still writes to it.
const held = new Set<readonly unknown[]>();

async function holdUntilSettled<T>(pending: Promise<T>, args: readonly unknown[]): Promise<T> {
  held.add(args);
  try {
    return await pending;
  } finally {
    held.delete(args);
  }
}

function prepareCalls(ffi: Ffi) {
  const { DataType } = ffi;
  const scalar = {
    pointer: DataType.BigInt,
    text: DataType.String,
    int: DataType.I32,
    u32: DataType.U32,
    long: DataType.BigInt,
    void: DataType.Void,
  } as const;
  const typeOf = (type: CType, value: unknown) =>
    type === 'bytes'
      ? ffi.arrayConstructor({ type: DataType.U8Array, length: (value as Uint8Array).length })
      : scalar[type];
  return (name: SymbolName, args: readonly unknown[]) => {
    const { library, gives, takes } = SYMBOLS[name];
    return {
      library,
      funcName: name,
      retType: typeOf(gives, undefined),
      paramsType: takes.map((type, i) => typeOf(type, args[i])),
      paramsValue: [...args],
      freeResultMemory: false,
    };
  };
}
