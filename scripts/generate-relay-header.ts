// generate-relay-header.ts DIR: writes what the relay shares with TypeScript as C, so that each fact keeps one owner:
// DIR/cni-versions.h (answer of VERSION, the about text) and DIR/relay-frame.h (numbers of the frames).
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  ANSWER_HEADER_BYTES,
  ENV_BYTES_MAX,
  MARKER_REFUSED,
  MARKER_TAKEN,
  RELAY_FRAME_VERSION,
  RELAY_MAGIC,
  REQUEST_HEADER_BYTES,
  STDERR_BYTES_MAX,
  STDIN_BYTES_MAX,
  STDOUT_BYTES_MAX,
} from '../src/cni/relay-frame.ts';
import { formatVersionAnswer } from '../src/cni/versions.ts';
import { formatAbout } from '../src/commands/version.ts';

const frame = {
  ANSWER_HEADER_BYTES,
  ENV_BYTES_MAX,
  MARKER_REFUSED,
  MARKER_TAKEN,
  RELAY_FRAME_VERSION,
  RELAY_MAGIC,
  REQUEST_HEADER_BYTES,
  STDERR_BYTES_MAX,
  STDIN_BYTES_MAX,
  STDOUT_BYTES_MAX,
};

const [dir] = process.argv.slice(2);
if (dir === undefined) throw new Error('usage: generate-relay-header.ts DIR');

/** `text` as a C string literal; the texts here are ASCII, where JSON and C quote alike. */
function quoteForC(text: string): string {
  if (!/^[\n -~]*$/.test(text)) throw new Error(`not plain ASCII: ${JSON.stringify(text)}`);
  return JSON.stringify(text);
}

function writeHeader(name: string, defines: readonly (readonly [string, string | number])[]): void {
  const guard = name.replaceAll(/[-.]/g, '_').toUpperCase();
  const lines = defines.map(
    ([key, value]) => `#define ${key} ${typeof value === 'number' ? `${value}u` : quoteForC(value)}`,
  );
  const text = ['/* Made by scripts/generate-relay-header.ts. */', `#ifndef ${guard}`, `#define ${guard}`, ...lines];
  writeFileSync(join(dir ?? '', name), `${[...text, '#endif'].join('\n')}\n`);
}

mkdirSync(dir, { recursive: true });
writeHeader('cni-versions.h', [
  ['CNI_VERSION_ANSWER', formatVersionAnswer()],
  ['CNI_ABOUT', formatAbout()],
]);
writeHeader('relay-frame.h', Object.entries(frame));
