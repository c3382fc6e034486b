// node pause-image.ts BINARY OUT: writes a sandbox image without any registry, as an OCI image layout (image-spec 1.0) in one
// tar file. One layer with one file, /pause. The same input gives the same bytes.
import { createHash } from 'node:crypto';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { PAUSE_IMAGE } from './places.ts';

const BLOCK_BYTES = 512;

interface Entry {
  readonly name: string;
  readonly mode: number;
  readonly content: Uint8Array;
}

/** A POSIX ustar archive (pax(1)) of regular files. Names are at most 100 bytes. */
function encodeTar(entries: readonly Entry[]): Buffer {
  const parts = entries.flatMap(({ name, mode, content }) => {
    const padding = (BLOCK_BYTES - (content.length % BLOCK_BYTES)) % BLOCK_BYTES;
    return [encodeHeader(name, { mode, sizeBytes: content.length }), content, Buffer.alloc(padding)];
  });
  return Buffer.concat([...parts, Buffer.alloc(2 * BLOCK_BYTES)]);
}

function encodeHeader(name: string, options: { readonly mode: number; readonly sizeBytes: number }): Buffer {
  const header = Buffer.alloc(BLOCK_BYTES);
  const octal = (value: number, digits: number) => `${value.toString(8).padStart(digits, '0')}\0`;
  header.write(name, 0);
  header.write(octal(options.mode, 7), 100);
  header.write(octal(0, 7), 108); // uid
  header.write(octal(0, 7), 116); // gid
  header.write(octal(options.sizeBytes, 11), 124);
  header.write(octal(0, 11), 136); // mtime
  header.write(' '.repeat(8), 148); // the checksum counts as blanks while it is made
  header.write('0', 156); // a regular file
  header.write('ustar\0', 257);
  header.write('00', 263);
  const checksum = header.reduce((sum, byte) => sum + byte, 0);
  header.write(`${checksum.toString(8).padStart(6, '0')}\0 `, 148);
  return header;
}

const digest = (bytes: Uint8Array) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
const encodeJson = (value: object) => Buffer.from(JSON.stringify(value));

function buildImage(binary: Uint8Array): Buffer {
  const layer = encodeTar([{ name: 'pause', mode: 0o755, content: binary }]);
  const config = encodeJson({
    architecture: 'amd64',
    os: 'linux',
    config: { Entrypoint: ['/pause'] },
    rootfs: { type: 'layers', diff_ids: [digest(layer)] },
  });
  const describe = (mediaType: string, bytes: Uint8Array) => ({ mediaType, digest: digest(bytes), size: bytes.length });
  const manifest = encodeJson({
    schemaVersion: 2,
    mediaType: 'application/vnd.oci.image.manifest.v1+json',
    config: describe('application/vnd.oci.image.config.v1+json', config),
    layers: [describe('application/vnd.oci.image.layer.v1.tar', layer)],
  });
  const index = encodeJson({
    schemaVersion: 2,
    manifests: [
      {
        ...describe('application/vnd.oci.image.manifest.v1+json', manifest),
        annotations: { 'io.containerd.image.name': PAUSE_IMAGE },
      },
    ],
  });
  const blob = (bytes: Uint8Array) => ({ name: `blobs/sha256/${digest(bytes).slice(7)}`, mode: 0o644, content: bytes });
  const layout = encodeJson({ imageLayoutVersion: '1.0.0' });
  return encodeTar([
    { name: 'oci-layout', mode: 0o644, content: layout },
    { name: 'index.json', mode: 0o644, content: index },
    ...[layer, config, manifest].map(blob),
  ]);
}

const [binary, out] = process.argv.slice(2);
if (binary === undefined || out === undefined) throw new Error('usage: pause-image.ts BINARY OUT');
writeFileSync(`${out}.new`, buildImage(readFileSync(binary)));
renameSync(`${out}.new`, out);
