// A strict JSON reader (RFC 8259) that keeps what JSON.parse loses: where each value stands in the text, duplicate keys,
// and every digit of a number. So a part can be handed on byte for byte, and an error can say where without quoting what
// stands there (JSON.parse quotes the text around the error, which may be a secret).
import { DecodeError } from '../core/errors.ts';

/** `start` inclusive and `end` exclusive are offsets into the text, in UTF-16 units. */
interface Span {
  readonly start: number;
  readonly end: number;
}

export interface JsonMember {
  readonly key: string;
  /** Offset of the key's opening quote. */
  readonly start: number;
  readonly value: JsonNode;
}

export type JsonNode = Span &
  (
    | { readonly kind: 'object'; readonly members: readonly JsonMember[] }
    | { readonly kind: 'array'; readonly items: readonly JsonNode[] }
    | { readonly kind: 'string'; readonly value: string }
    | { readonly kind: 'number'; readonly value: number }
    | { readonly kind: 'boolean'; readonly value: boolean }
    | { readonly kind: 'null' }
  );

export type JsonObject = Extract<JsonNode, { kind: 'object' }>;

// Go's encoding/json gives up at 10000; recursion here must stay well below the stack.
const DEPTH_MAX = 500;
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?/y;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const BLANK = 0x20;
const ESCAPES: ReadonlyMap<string, string> = new Map([
  ['"', '"'],
  ['\\', '\\'],
  ['/', '/'],
  ['b', '\b'],
  ['f', '\f'],
  ['n', '\n'],
  ['r', '\r'],
  ['t', '\t'],
]);

/** Reads exactly one JSON value. Throws DecodeError: `decoding <what>: line 3 column 7: expected a value`. */
export function parseJson(text: string, what: string): JsonNode {
  return new JsonReader(text, what).readDocument();
}

/** The last member of that key, as JSON.parse and Go's decoder have it. */
export function findMember(object: JsonObject, key: string): JsonMember | undefined {
  return object.members.findLast((member) => member.key === key);
}

class JsonReader {
  readonly #text: string;
  readonly #what: string;
  #at = 0;
  #depth = 0;

  constructor(text: string, what: string) {
    this.#text = text;
    this.#what = what;
  }

  readDocument(): JsonNode {
    this.#skipBlanks();
    const node = this.#readValue();
    this.#skipBlanks();
    if (this.#at < this.#text.length) this.#fail('expected the end of the input');
    return node;
  }

  #readValue(): JsonNode {
    switch (this.#text[this.#at]) {
      case '{':
        return this.#nest(() => this.#readObject());
      case '[':
        return this.#nest(() => this.#readArray());
      case '"': {
        const start = this.#at;
        const value = this.#readString();
        return { kind: 'string', value, start, end: this.#at };
      }
      case 't':
        return { kind: 'boolean', value: true, ...this.#readWord('true') };
      case 'f':
        return { kind: 'boolean', value: false, ...this.#readWord('false') };
      case 'n':
        return { kind: 'null', ...this.#readWord('null') };
      default:
        return this.#readNumber();
    }
  }

  #nest(read: () => JsonNode): JsonNode {
    if (++this.#depth > DEPTH_MAX) this.#fail(`more than ${DEPTH_MAX} levels deep`);
    const node = read();
    this.#depth--;
    return node;
  }

  #readObject(): JsonNode {
    const start = this.#at++;
    const members: JsonMember[] = [];
    this.#skipBlanks();
    if (this.#take('}')) return { kind: 'object', members, start, end: this.#at };
    for (;;) {
      this.#skipBlanks();
      const keyStart = this.#at;
      if (this.#text[this.#at] !== '"') this.#fail('expected a key in double quotes');
      const key = this.#readString();
      this.#skipBlanks();
      if (!this.#take(':')) this.#fail('expected ":" after the key');
      this.#skipBlanks();
      members.push({ key, start: keyStart, value: this.#readValue() });
      this.#skipBlanks();
      if (this.#take('}')) return { kind: 'object', members, start, end: this.#at };
      if (!this.#take(',')) this.#fail('expected "," or "}"');
    }
  }

  #readArray(): JsonNode {
    const start = this.#at++;
    const items: JsonNode[] = [];
    this.#skipBlanks();
    if (this.#take(']')) return { kind: 'array', items, start, end: this.#at };
    for (;;) {
      this.#skipBlanks();
      items.push(this.#readValue());
      this.#skipBlanks();
      if (this.#take(']')) return { kind: 'array', items, start, end: this.#at };
      if (!this.#take(',')) this.#fail('expected "," or "]"');
    }
  }

  #readString(): string {
    this.#at++;
    let value = '';
    for (;;) {
      value += this.#readPlain();
      const next = this.#text[this.#at];
      if (next === '"') {
        this.#at++;
        return value;
      }
      if (next !== '\\') this.#fail('a string holds a control character');
      this.#at++;
      value += this.#readEscape();
    }
  }

  // Up to what needs a look: the closing quote, an escape, a control character.
  #readPlain(): string {
    const start = this.#at;
    for (; this.#at < this.#text.length; this.#at++) {
      const code = this.#text.charCodeAt(this.#at);
      if (code === QUOTE || code === BACKSLASH || code < BLANK) break;
    }
    return this.#text.slice(start, this.#at);
  }

  #readEscape(): string {
    const letter = this.#text[this.#at] ?? this.#fail('');
    if (letter === 'u') {
      const digits = this.#text.slice(this.#at + 1, this.#at + 5);
      if (this.#at + 5 > this.#text.length) this.#at = this.#text.length;
      if (!/^[0-9a-fA-F]{4}$/.test(digits)) this.#fail('a string holds a malformed escape');
      this.#at += 5;
      return String.fromCharCode(Number.parseInt(digits, 16));
    }
    const value = ESCAPES.get(letter) ?? this.#fail('a string holds an unknown escape');
    this.#at++;
    return value;
  }

  #readNumber(): JsonNode {
    const start = this.#at;
    const digits = this.#match(NUMBER);
    if (digits === '') {
      // A sign alone at the end: what is missing is the rest.
      if (this.#text[start] === '-' && start + 1 === this.#text.length) this.#at++;
      this.#fail('expected a value');
    }
    return { kind: 'number', value: Number(digits), start, end: this.#at };
  }

  #readWord(word: string): Span {
    const start = this.#at;
    for (const letter of word) if (!this.#take(letter)) this.#fail('expected a value');
    return { start, end: this.#at };
  }

  #match(pattern: RegExp): string {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text)?.[0] ?? '';
    this.#at += found.length;
    return found;
  }

  #take(letter: string): boolean {
    if (this.#text[this.#at] !== letter) return false;
    this.#at++;
    return true;
  }

  #skipBlanks(): void {
    while (' \t\n\r'.includes(this.#text[this.#at] ?? '.')) this.#at++;
  }

  #fail(reason: string): never {
    const before = this.#text.slice(0, this.#at).split('\n');
    const place = `line ${before.length} column ${(before.at(-1) ?? '').length + 1}`;
    const why = this.#at >= this.#text.length ? 'unexpected end of the input' : reason;
    throw new DecodeError(`decoding ${this.#what}: ${place}: ${why}`);
  }
}
