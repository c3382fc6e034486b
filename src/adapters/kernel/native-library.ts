// Opens the native libraries and calls their functions: libnftnl's through ffi-rs, those of libaether, which is an addon, by
// itself. Everything else in this folder sees typed functions; only here do names, types and memory of C meet JavaScript.
import { messageOf, NativeError } from '../../core/errors.ts';
import type { Ffi } from '../host/load-ffi.ts';
import { type ListenRelay, type RelayAddon, relayListenerOf } from '../relay/relay-listener.ts';
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
  /** Calls on a thread of its own; buffers among the arguments stay alive and in place until it has answered. */
  callOffThread<N extends AetherName>(name: N, ...args: Arguments<N>): Promise<Result<N>>;
}

/** With what only the resident process does. */
export interface ResidentLibrary extends NativeLibrary {
  readonly listenRelay: ListenRelay;
}

/** Functions of libaether. */
export type AetherName = Extract<SymbolName, `ae_${string}`>;

/**
 * Opens libmnl, libnftnl and libaether in this order: glibc takes what each needs from those loaded, by soname.
 * Throws NativeError.
 */
export function openNativeLibrary(paths: NativeLibraryPaths, ffi: Ffi): ResidentLibrary {
  for (const library of ['libmnl', 'libnftnl'] as const) {
    attempt(`open ${library} at "${paths[library]}"`, () => ffi.open({ library, path: paths[library] }));
  }
  const addon = attempt(`open libaether at "${paths.libaether}"`, () => loadAddon(paths.libaether));
  const numbers = numberCalls(addon);
  const load = nftnlCaller(ffi);
  // The table says what a function gives; its types cannot be followed through a look-up by name.
  const call = <N extends SymbolName>(name: N, args: readonly unknown[]): Result<N> => {
    const number = numbers.get(name);
    return (number === undefined ? load(name, args) : convert(name, addon.call(number, ...args))) as Result<N>;
  };
  return {
    call: (name, ...args) => call(name, args),
    callOffThread: async <N extends AetherName>(name: N, ...args: Arguments<N>) => {
      const pending = addon.callOffThread(numbers.get(name) ?? -1, ...args);
      return convert(name, await holdUntilSettled(pending, args)) as Result<N>;
    },
    listenRelay: relayListenerOf(addon),
  };
}

/** native/addon.c: functions by their number in `calls`. */
interface Addon extends RelayAddon {
  call(number: number, ...args: readonly unknown[]): number;
  callOffThread(number: number, ...args: readonly unknown[]): Promise<number>;
  readonly calls: readonly (readonly [name: string, takes: string])[];
}

function loadAddon(path: string): Addon {
  const addon: { exports: unknown } = { exports: {} };
  process.dlopen(addon, path);
  // What addon.c exports.
  return addon.exports as Addon;
}

const KINDS: Readonly<Partial<Record<CType, string>>> = { text: 't', bytes: 'b', int: 'i', u32: 'u', long: 'l' };

// Our table and the addon's are one, or memory would be taken for something else.
function numberCalls({ calls }: Addon): ReadonlyMap<string, number> {
  const numbers = new Map(calls.map(([name], number) => [name, number]));
  const theirs = new Map(calls);
  for (const [name, { library, takes }] of Object.entries(SYMBOLS)) {
    if (library !== 'libaether') continue;
    const ours = takes.map((type) => KINDS[type]).join('');
    if (theirs.get(name) !== ours)
      throw new NativeError(`open libaether: ${name} takes "${theirs.get(name)}", not "${ours}"`);
  }
  return numbers;
}

function convert(name: SymbolName, result: number): number | bigint {
  return SYMBOLS[name].gives === 'long' ? BigInt(result) : result;
}

function attempt<T>(what: string, open: () => T): T {
  try {
    return open();
  } catch (cause) {
    throw cause instanceof NativeError ? cause : new NativeError(`${what}: ${messageOf(cause)}`, { cause });
  }
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

function nftnlCaller(ffi: Ffi): (name: SymbolName, args: readonly unknown[]) => unknown {
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
  return (name, args) => {
    const { library, gives, takes } = SYMBOLS[name];
    return ffi.load({
      library,
      funcName: name,
      retType: typeOf(gives, undefined),
      paramsType: takes.map((type, i) => typeOf(type, args[i])),
      paramsValue: [...args],
      freeResultMemory: false,
      runInNewThread: false,
    });
  };
}
