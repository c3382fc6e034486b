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
// Compared as numbers: every ADD waits for this, and less of what rested is touched than with texts of one character.
const TAB = 0x09;
const NEWLINE = 0x0a;
const RETURN = 0x0d;
const BLANK = 0x20;
const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_BRACKET = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
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
  return new JsonReader(text, { what, at: 0, depth: 0 }).readDocument();
}

/**
 * Reads the value that stands at an offset, behind blanks at most; what follows it is not looked at. `depth`: of the objects
 * and arrays that it stands in. Throws DecodeError as if the whole text were read.
 */
export function parseJsonAt(
  text: string,
  { what, at, depth }: { readonly what: string; readonly at: number; readonly depth: number },
): JsonNode {
  return new JsonReader(text, { what, at, depth }).readNext();
}

/** The last member of that key, as JSON.parse and Go's decoder have it. */
export function findMember(object: JsonObject, key: string): JsonMember | undefined {
  const { members } = object;
  for (let at = members.length - 1; at >= 0; at--) if (members[at]?.key === key) return members[at];
  return undefined;
}

class JsonReader {
  readonly #text: string;
  readonly #what: string;
  #at: number;
  #depth: number;

  constructor(
    text: string,
    { what, at, depth }: { readonly what: string; readonly at: number; readonly depth: number },
  ) {
    this.#text = text;
    this.#what = what;
    this.#at = at;
    this.#depth = depth;
  }

  readNext(): JsonNode {
    this.#skipBlanks();
    return this.#readValue();
  }

  readDocument(): JsonNode {
    const node = this.readNext();
    this.#skipBlanks();
    if (this.#at < this.#text.length) this.#fail('expected the end of the input');
    return node;
  }

  #readValue(): JsonNode {
    const start = this.#at;
    switch (this.#next()) {
      case OPEN_BRACE:
        return this.#readObject();
      case OPEN_BRACKET:
        return this.#readArray();
      case QUOTE: {
        const value = this.#readString();
        return { kind: 'string', value, start, end: this.#at };
      }
    }
    switch (this.#text[start]) {
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

  #readObject(): JsonNode {
    const start = this.#goIn();
    const members: JsonMember[] = [];
    if (!this.#comesNext(CLOSE_BRACE)) {
      do {
        this.#skipBlanks();
        const keyStart = this.#at;
        if (this.#next() !== QUOTE) this.#fail('expected a key in double quotes');
        const key = this.#readString();
        if (!this.#comesNext(COLON)) this.#fail('expected ":" after the key');
        this.#skipBlanks();
        members.push({ key, start: keyStart, value: this.#readValue() });
      } while (this.#comesNext(COMMA));
      if (!this.#comesNext(CLOSE_BRACE)) this.#fail('expected "," or "}"');
    }
    this.#depth--;
    return { kind: 'object', members, start, end: this.#at };
  }

  #readArray(): JsonNode {
    const start = this.#goIn();
    const items: JsonNode[] = [];
    if (!this.#comesNext(CLOSE_BRACKET)) {
      do {
        this.#skipBlanks();
        items.push(this.#readValue());
      } while (this.#comesNext(COMMA));
      if (!this.#comesNext(CLOSE_BRACKET)) this.#fail('expected "," or "]"');
    }
    this.#depth--;
    return { kind: 'array', items, start, end: this.#at };
  }

  #goIn(): number {
    if (++this.#depth > DEPTH_MAX) this.#fail(`more than ${DEPTH_MAX} levels deep`);
    return this.#at++;
  }

  #readString(): string {
    this.#at++;
    let value = this.#readPlain();
    while (this.#next() !== QUOTE) {
      if (this.#next() !== BACKSLASH) this.#fail('a string holds a control character');
      this.#at++;
      value += this.#readEscape() + this.#readPlain();
    }
    this.#at++;
    return value;
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
    for (const letter of word) {
      if (this.#text[this.#at] !== letter) this.#fail('expected a value');
      this.#at++;
    }
    return { start, end: this.#at };
  }

  #match(pattern: RegExp): string {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text)?.[0] ?? '';
    this.#at += found.length;
    return found;
  }

  // NaN at the end.
  #next(): number {
    return this.#text.charCodeAt(this.#at);
  }

  // Behind blanks; it is taken then.
  #comesNext(code: number): boolean {
    this.#skipBlanks();
    if (this.#next() !== code) return false;
    this.#at++;
    return true;
  }

  #skipBlanks(): void {
    for (;;) {
      const code = this.#next();
      if (code !== BLANK && code !== NEWLINE && code !== TAB && code !== RETURN) return;
      this.#at++;
    }
  }

  #fail(reason: string): never {
    const before = this.#text.slice(0, this.#at).split('\n');
    const place = `line ${before.length} column ${(before.at(-1) ?? '').length + 1}`;
    const why = this.#at >= this.#text.length ? 'unexpected end of the input' : reason;
    throw new DecodeError(`decoding ${this.#what}: ${place}: ${why}`);
  }
}
