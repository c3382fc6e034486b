// Exhaustiveness for switches over a discriminated union.

/** Makes the compiler prove that every `kind` is handled; at run time it names the value that no branch knew. */
export function assertNever(value: never): never {
  throw new TypeError(`unexpected value: ${JSON.stringify(value)}`);
}
