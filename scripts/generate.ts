// npm run generate: src/proto -> src/gen (JavaScript and declarations; not committed). Does nothing when nothing changed.
// The new tree is made aside and moved into place, so that a failed run leaves the old one.
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { hashInputs, isStamped, listFiles, writeStamp } from './stamp.ts';

const ROOT = join(import.meta.dirname, '..');
const OUTPUT = join(ROOT, 'src/gen');
const STAMP = join(OUTPUT, '.stamp');

/** The generators' versions as installed: another version writes another tree. */
function readVersions(): string[] {
  return ['@bufbuild/buf', '@bufbuild/protoc-gen-es'].map(
    (name) =>
      `${name} ${String(JSON.parse(readFileSync(join(ROOT, 'node_modules', name, 'package.json'), 'utf8')).version)}`,
  );
}

process.chdir(ROOT);
const hash = hashInputs(listFiles('src/proto'), readVersions());
if (!isStamped(STAMP, hash)) {
  const fresh = join(ROOT, 'build', `gen-${process.pid}`);
  const old = `${fresh}-old`;
  try {
    mkdirSync(fresh, { recursive: true });
    execFileSync('node_modules/.bin/buf', ['generate', '--template', 'src/proto/buf.gen.yaml', '-o', fresh], {
      stdio: 'inherit',
      env: { ...process.env, PATH: `${join(ROOT, 'node_modules/.bin')}:${process.env['PATH'] ?? ''}` },
    });
    writeStamp(join(fresh, '.stamp'), hash);
    try {
      renameSync(OUTPUT, old);
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT')) throw error;
    }
    renameSync(fresh, OUTPUT);
  } finally {
    rmSync(old, { recursive: true, force: true });
    rmSync(fresh, { recursive: true, force: true });
  }
  process.stdout.write(`generated src/gen: ${listFiles('src/gen').length} files\n`);
}
