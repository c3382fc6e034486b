// Messages that differ in a few texts: the bytes of one with other texts of the same length in their places are the bytes of the
// next. Building and encoding takes fifty times as long. Whether that holds is not assumed (as in pod-templates.ts).
import { Buffer } from 'node:buffer';
import { RecentMap } from '../core/recent-map.ts';

/** Texts that mean themselves wherever they are put. */
export const PLAIN = /^[A-Za-z0-9._:/-]*$/;
/** Stand for the texts, as often as their bytes; in none of our messages otherwise. */
const MARKS = ['~', '^', '`', '|'] as const;
/** More shapes of a message than a node has at a time. */
const CACHE_SIZE = 128;

/** Where a text stands; `text` is its index. */
export interface Place {
  readonly at: number;
  readonly text: number;
}

interface Template {
  readonly bytes: Uint8Array;
  readonly places: readonly Place[];
}

export interface Stamp {
  /** Four at most. */
  readonly texts: readonly string[];
  /** All that the bytes depend on besides. */
  readonly key?: string;
  readonly make: (texts: readonly string[]) => Uint8Array;
}

/** Of one message. */
export class StampedBytes {
  readonly #templates = new RecentMap<Template | 'none'>(CACHE_SIZE);

  /** What `make` gives. */
  encode({ texts, key = '', make }: Stamp): Uint8Array {
    if (!texts.every((text) => PLAIN.test(text))) return make(texts);
    const lengths = texts.map(({ length }) => length);
    const template = this.#templates.getOrMake(`${lengths} ${key}`, () => makeTemplate(texts, make));
    return template === 'none' ? make(texts) : stampBytes(template, encodeTexts(texts));
  }
}

function makeTemplate(texts: readonly string[], make: Stamp['make']): Template | 'none' {
  const marks = marksFor(texts);
  const bytes = make(marks);
  const template = { bytes, places: findPlaces(bytes, marks) };
  return Buffer.compare(stampBytes(template, encodeTexts(texts)), make(texts)) === 0 ? template : 'none';
}

/** Marks as long as the texts. */
export function marksFor(texts: readonly string[]): readonly string[] {
  return texts.map((text, index) => (MARKS[index] ?? '').repeat(text.length));
}

/** Where the marks stand in the bytes. */
export function findPlaces(bytes: Uint8Array, marks: readonly string[]): readonly Place[] {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  return marks.flatMap((mark, text) => {
    const places: Place[] = [];
    if (mark === '') return places;
    for (let at = buffer.indexOf(mark); at >= 0; at = buffer.indexOf(mark, at + mark.length)) places.push({ at, text });
    return places;
  });
}

/** The bytes of the texts. */
export function encodeTexts(texts: readonly string[]): readonly Uint8Array[] {
  return texts.map((text) => Buffer.from(text, 'latin1'));
}

/** A copy with the texts in their places. */
export function stampBytes({ bytes, places }: Template, texts: readonly Uint8Array[]): Uint8Array {
  const stamped = new Uint8Array(bytes);
  for (const { at, text } of places) stamped.set(texts[text] ?? [], at);
  return stamped;
}
