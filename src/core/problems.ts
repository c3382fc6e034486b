// What is wrong with an input, collected: a reader of untrusted input reports all its problems at once, never the first.

/** One thing wrong with an input. `path` says where, in the input's own words: `runtimeConfig.x[2]`, `CNI_NETNS`. */
export interface Problem {
  readonly path: string;
  /** What must hold and what was found, lower case, offending value quoted: `must be 1..65535, got 70000`. */
  readonly message: string;
}

/** `path: message`, the one form in which a problem is shown to people. */
export function formatProblem(problem: Problem): string {
  return problem.path === '' ? problem.message : `${problem.path}: ${problem.message}`;
}

/** All problems on one line, in the order found, joined with `; `. */
export function formatProblems(problems: readonly Problem[]): string {
  return problems.map(formatProblem).join('; ');
}

/** The answer of a parser of untrusted input: the value, or every problem found (at least one). */
export type Parsed<T> =
  | { readonly kind: 'value'; readonly value: T; readonly warnings: readonly Problem[] }
  | { readonly kind: 'problems'; readonly problems: readonly Problem[] };

/** Collects problems and warnings while a parser goes on; `finish` gives the parser's answer. */
export class ProblemList {
  readonly #problems: Problem[] = [];
  readonly #warnings: Problem[] = [];

  add(path: string, message: string): void {
    this.#problems.push(onOneLine(path, message));
  }

  addAll(problems: readonly Problem[]): void {
    this.#problems.push(...problems);
  }

  /** Something that is legal but most likely not meant; it never fails the input. */
  warn(path: string, message: string): void {
    this.#warnings.push(onOneLine(path, message));
  }

  warnAll(warnings: readonly Problem[]): void {
    this.#warnings.push(...warnings);
  }

  /** The value of a part that was parsed apart; its problems and warnings become this list's. Undefined: it had problems. */
  take<T>(parsed: Parsed<T>): T | undefined {
    if (parsed.kind === 'problems') {
      this.addAll(parsed.problems);
      return undefined;
    }
    this.warnAll(parsed.warnings);
    return parsed.value;
  }

  get isEmpty(): boolean {
    return this.#problems.length === 0;
  }

  get problems(): readonly Problem[] {
    return [...this.#problems];
  }

  get warnings(): readonly Problem[] {
    return [...this.#warnings];
  }

  /** `build` runs only when nothing was wrong. */
  finish<T>(build: () => T): Parsed<T> {
    return this.isEmpty
      ? { kind: 'value', value: build(), warnings: this.warnings }
      : { kind: 'problems', problems: this.problems };
  }
}

const TEXT_MAX = 500;

// A path may hold a key of the input, a message the words of another parser: neither may break a line or flood a log.
function onOneLine(path: string, message: string): Problem {
  return { path: tidy(path), message: tidy(message) };
}

function tidy(text: string): string {
  const line = text.replace(/[\p{Cc}\u2028\u2029]/gu, escapeCharacter);
  return line.length > TEXT_MAX ? `${line.slice(0, TEXT_MAX - 3)}...` : line;
}

// As JSON does, and also what JSON leaves.
function escapeCharacter(character: string): string {
  const escaped = JSON.stringify(character).slice(1, -1);
  return escaped === character ? `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}` : escaped;
}

/** Shows an offending value in a message: JSON, cut at 80 characters, so that hostile input cannot flood a log. */
export function quoteValue(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 80 ? `${text.slice(0, 77)}...` : text;
}
