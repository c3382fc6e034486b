// npm run build, after setup: dist/aether-cni, and dist/aether-cni-relay where native/ makes one. Does nothing when nothing
// changed, so that whoever needs the executable just runs it.
import { copyFileSync, existsSync, renameSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { bundle, listExecutableInputs, makeExecutable, readBundle, removeBundle } from './executable.ts';
import { hashInputs, isStamped, listFiles, writeStamp } from './stamp.ts';
import { listPackages, writeLicenses } from './third-party.ts';

const ROOT = join(import.meta.dirname, '..');
const EXECUTABLE = 'dist/aether-cni';
const RELAY = 'dist/aether-cni-relay';
const BUILT_RELAY = 'build/native/aether-cni-relay';
const STAMP = 'dist/.stamp';

process.chdir(ROOT);

// The bundle, not the sources, is hashed: it takes a fraction of a second, and a comment or a test changes nothing in it.
// Its name is this build's own, so that two at once do not mix.
const script = `build/aether-cni.${process.pid}.cjs`;
// What is half made when the build is interrupted: 130 MB. The packager works in another directory meanwhile.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => {
    removeBundle(join(ROOT, script));
    rmSync(join(ROOT, `${EXECUTABLE}.${process.pid}`), { force: true });
    process.exit(1);
  });
}
try {
  // A CNI call is a process of its own; the agent loads a part once in its life.
  const bundled = await bundle({ entry: 'src/main.ts', output: script, compiled: 'src/commands/plugin.ts' });
  const inputs = [...listExecutableInputs(), ...listFiles('packaging/licenses'), 'scripts/executable.ts'];
  const hash = hashInputs(inputs, readBundle(script));
  if (isStamped(STAMP, hash) && existsSync(EXECUTABLE)) {
    process.stdout.write(`build  ${EXECUTABLE} ready\n`);
  } else {
    const start = performance.now();
    await makeExecutable(script, join(ROOT, EXECUTABLE));
    writeLicenses('dist/licenses', listPackages([...bundled, ...listExecutableInputs()]));
    writeStamp(STAMP, hash);
    const { size } = statSync(EXECUTABLE);
    const seconds = ((performance.now() - start) / 1000).toFixed(1);
    process.stdout.write(`build  ${EXECUTABLE} done in ${seconds} s, ${Math.round(size / 1e6)} MB\n`);
  }
} finally {
  removeBundle(script);
}

if (existsSync(BUILT_RELAY)) {
  const fresh = `${RELAY}.${process.pid}`;
  copyFileSync(BUILT_RELAY, fresh);
  renameSync(fresh, RELAY);
}
