// Stable orders. Everything that is printed, sent or hashed is sorted with these, never by map or locale order.

/** Code-unit order of strings, independent of locale. */
export function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Ascending numbers. */
export function compareNumbers(a: number, b: number): number {
  return a - b;
}
