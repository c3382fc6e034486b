// Messages that differ in one text: the bytes of one with another text of the same length in its place are the bytes of the next.
// Building and encoding takes fifty times as long. Whether that holds is not assumed (as in pod-templates.ts).
import { Buffer } from 'node:buffer';
import { RecentMap } from '../core/recent-map.ts';

/** Texts that mean themselves wherever they are put. */
export const PLAIN = /^[A-Za-z0-9._:/-]+$/;
/** Lengths of names that a node has at a time. */
const CACHE_SIZE = 64;
/** In none of our messages otherwise. */
const MARK = '~';

interface Template {
  readonly bytes: Uint8Array;
  readonly places: readonly number[];
}

/** What `make` gives, which depends on nothing but the text. */
export function stampedBytes(make: (text: string) => Uint8Array): (text: string) => Uint8Array {
  const templates = new RecentMap<Template | 'none'>(CACHE_SIZE);
  return (text) => {
    if (!PLAIN.test(text)) return make(text);
    const template = templates.getOrMake(String(text.length), () => makeTemplate(text, make));
    return template === 'none' ? make(text) : stamp(template, text);
  };
}

function makeTemplate(text: string, make: (text: string) => Uint8Array): Template | 'none' {
  const mark = MARK.repeat(text.length);
  const bytes = make(mark);
  const template = { bytes, places: findPlaces(bytes, mark) };
  return Buffer.compare(stamp(template, text), make(text)) === 0 ? template : 'none';
}

/** Where the text stands in the bytes. */
export function findPlaces(bytes: Uint8Array, text: string): readonly number[] {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  const places: number[] = [];
  for (let at = buffer.indexOf(text); at >= 0; at = buffer.indexOf(text, at + text.length)) places.push(at);
  return places;
}

function stamp({ bytes, places }: Template, text: string): Uint8Array {
  const stamped = new Uint8Array(bytes);
  const encoded = Buffer.from(text, 'latin1');
  for (const at of places) stamped.set(encoded, at);
  return stamped;
}
