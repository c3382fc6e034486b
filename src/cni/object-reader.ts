// Reads the members of a JSON object by name and type, and collects what is wrong: a wrong type or range (the value is
// never shown: it may be a secret in the wrong place), a key given twice, and at the end the keys that nobody asked for.
import type { ProblemList } from '../core/problems.ts';
import type { JsonMember, JsonNode } from './json.ts';

/** A member, wherever it stands. */
export type NamedValue = Pick<JsonMember, 'key' | 'value'>;

/** Beyond so many members a look at each of them takes longer than a map. */
const FEW = 16;

/** `null` counts as absent, and so does an empty string, as with the Go mesh's plugin. */
export class ObjectReader {
  readonly #path: string | (() => string);
  readonly #members: readonly NamedValue[];
  readonly #byKey: Map<string, JsonNode> | undefined;
  readonly #asked: string[] = [];
  readonly #list: ProblemList;

  /** `path` is the object's own, '' for the document; made when something is wrong. */
  constructor(
    { members }: { readonly members: readonly NamedValue[] },
    { path, list }: { readonly path: string | (() => string); readonly list: ProblemList },
  ) {
    this.#path = path;
    this.#list = list;
    this.#members = members;
    this.#byKey = members.length > FEW ? new Map() : undefined;
    for (let at = 0; at < members.length; at++) {
      const { key, value } = members[at] as NamedValue;
      if (this.#lookUp(key, at) !== undefined) list.add(this.pathOf(key), 'is given twice');
      this.#byKey?.set(key, value);
    }
  }

  pathOf(key: string): string {
    const own = typeof this.#path === 'string' ? this.#path : this.#path();
    return own === '' ? showKey(key) : `${own}.${showKey(key)}`;
  }

  /** The member's value; undefined where absent or null. */
  find(key: string): JsonNode | undefined {
    this.#asked.push(key);
    const value = this.#lookUp(key);
    return value?.kind === 'null' ? undefined : value;
  }

  readString(key: string): string | undefined {
    const value = this.#findOfKind(key, 'string');
    return value === undefined || value.value === '' ? undefined : value.value;
  }

  readBoolean(key: string): boolean | undefined {
    return this.#findOfKind(key, 'boolean')?.value;
  }

  readInteger(key: string, range: { readonly min: number; readonly max: number }): number | undefined {
    const value = this.#findOfKind(key, 'number')?.value;
    if (value === undefined) return undefined;
    if (Number.isInteger(value) && value >= range.min && value <= range.max) return value;
    this.#list.add(this.pathOf(key), `must be a whole number from ${range.min} to ${range.max}, got ${value}`);
    return undefined;
  }

  readObject(key: string): ObjectReader | undefined {
    const value = this.#findOfKind(key, 'object');
    return value === undefined
      ? undefined
      : new ObjectReader(value, { path: () => this.pathOf(key), list: this.#list });
  }

  /** The items of an array; a wrong item is named by its index and left out by `read` giving undefined. */
  readArray<T>(key: string, read: (item: JsonNode, path: string) => T | undefined): readonly T[] | undefined {
    const items = this.#findOfKind(key, 'array')?.items;
    return items?.flatMap((item, index) => {
      const value = read(item, `${this.pathOf(key)}[${index}]`);
      return value === undefined ? [] : [value];
    });
  }

  /** An item of an array that must be a string that is not empty. */
  itemString(item: JsonNode, path: string): string | undefined {
    if (item.kind === 'string' && item.value !== '') return item.value;
    this.#list.add(path, item.kind === 'string' ? 'must not be empty' : mustBe('string', item));
    return undefined;
  }

  /** All members, each a string; keys that are asked for by nobody are fine here. */
  readStrings(): Readonly<Record<string, string>> {
    const strings: Record<string, string> = {};
    for (const { key, value } of this.#members) {
      // Of a key that is given twice the last counts.
      if (value.kind === 'null' || this.#lookUp(key) !== value) continue;
      if (value.kind !== 'string') this.#list.add(this.pathOf(key), mustBe('string', value));
      else if (key !== '__proto__') strings[key] = value.value;
      else Object.defineProperty(strings, key, { value: value.value, enumerable: true });
    }
    return strings;
  }

  /** Names what `find` and `read…` were never asked for, but for keys that `isKnown`. */
  warnUnknown(isKnown: (key: string) => boolean): void {
    for (const { key, value } of this.#members) {
      if (this.#lookUp(key) !== value || this.#asked.includes(key) || isKnown(key)) continue;
      this.#list.warn(this.pathOf(key), 'is not a key of this plugin');
    }
  }

  // The last of that key among the first so many.
  #lookUp(key: string, count = this.#members.length): JsonNode | undefined {
    if (this.#byKey !== undefined) return this.#byKey.get(key);
    for (let at = count - 1; at >= 0; at--) {
      const member = this.#members[at];
      if (member?.key === key) return member.value;
    }
    return undefined;
  }

  #findOfKind<K extends JsonNode['kind']>(key: string, kind: K): Extract<JsonNode, { kind: K }> | undefined {
    const value = this.find(key);
    if (value === undefined) return undefined;
    if (isOfKind(value, kind)) return value;
    this.#list.add(this.pathOf(key), mustBe(kind, value));
    return undefined;
  }
}

/** `must be a string, got a number`. */
export function mustBe(kind: JsonNode['kind'], found: JsonNode): string {
  return `must be ${withArticle(kind)}, got ${withArticle(found.kind)}`;
}

function isOfKind<K extends JsonNode['kind']>(node: JsonNode, kind: K): node is Extract<JsonNode, { kind: K }> {
  return node.kind === kind;
}

function withArticle(kind: JsonNode['kind']): string {
  if (kind === 'null') return kind;
  return kind === 'array' || kind === 'object' ? `an ${kind}` : `a ${kind}`;
}

// A key may be hostile too: long, or with line breaks.
function showKey(key: string): string {
  if (/^[\w./-]{1,100}$/.test(key)) return key;
  const quoted = JSON.stringify(key);
  return quoted.length > 100 ? `${quoted.slice(0, 97)}..."` : quoted;
}
