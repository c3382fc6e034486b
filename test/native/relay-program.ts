// The relay as a runtime starts it: in a directory of its own, a standalone program beside it that says what it got.
import { execFileSync, spawn } from 'node:child_process';
import { chmodSync, copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '../..');

/** The relay proper, and the same sources with the address and undefined-behaviour sanitizers. */
export const PROGRAMS = ['aether-cni-relay', 'aether-cni-relay-checked'] as const;
export type Program = (typeof PROGRAMS)[number];

/** Absolute path of something that native/Makefile makes. */
export const built = (name: string): string => join(ROOT, 'build/native', name);

/** Builds both programs and the fuzz target, where anything changed; one test file at a time. */
export function buildRelay(): void {
  const native = join(ROOT, 'native');
  const make = ['make', '-s', '-C', native, 'relay', 'relay-checked'];
  execFileSync('flock', [native, ...make], { stdio: ['ignore', 'ignore', 'inherit'] });
}

// cat: stdin must have survived the change of program, whatever was read of it before.
const STANDALONE = `#!/bin/sh
echo "standalone $CNI_COMMAND $*"
exec cat
`;

export interface Installed extends Disposable {
  readonly dir: string;
  /** What the runtime starts. */
  readonly path: string;
  /** Where no agent is yet. */
  readonly socketPath: string;
}

export function install(program: Program, options: { readonly standalone?: boolean } = {}): Installed {
  const dir = mkdtempSync('/tmp/ae-rel-');
  chmodSync(dir, 0o755);
  const path = join(dir, 'aether-cni');
  copyFileSync(built(program), path);
  if (options.standalone !== false) writeFileSync(`${path}-standalone`, STANDALONE, { mode: 0o755 });
  return {
    dir,
    path,
    socketPath: join(dir, 'relay.sock'),
    [Symbol.dispose]: () => rmSync(dir, { recursive: true, force: true }),
  };
}

export interface Run {
  readonly code: number | null;
  readonly stdout: Buffer;
  readonly stderr: string;
  readonly ms: number;
}

export interface RunOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** `open`: never closed, nothing written. */
  readonly stdin?: string | Buffer | 'open';
  readonly args?: readonly string[];
  readonly uid?: number;
}

/** Runs a program with exactly this environment. */
export function run(path: string, { env = {}, stdin = '', args = [], uid }: RunOptions = {}): Promise<Run> {
  const start = performance.now();
  const child = spawn(path, args, { env, ...(uid === undefined ? {} : { uid, gid: uid }) });
  const out: Buffer[] = [];
  const err: Buffer[] = [];
  child.stdout.on('data', (chunk: Buffer) => out.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => err.push(chunk));
  // A program that ends without reading its stdin.
  child.stdin.on('error', () => {});
  if (stdin !== 'open') child.stdin.end(stdin);
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => {
      child.stdin.destroy();
      const ms = performance.now() - start;
      resolve({ code, stdout: Buffer.concat(out), stderr: Buffer.concat(err).toString(), ms });
    });
  });
}

/** The same through `sh -c`, for what only a shell can arrange. `"$0"` in the script is the program. */
export function runInShell(script: string, path: string, options: RunOptions = {}): Promise<Run> {
  return run('/bin/sh', { ...options, args: ['-c', script, path] });
}

export const VERBS = ['ADD', 'DEL', 'CHECK', 'GC', 'STATUS'] as const;

/** The environment of a call whose agent is at the installed relay's socket. */
export function envOf(
  { socketPath }: Installed,
  verb: string,
  more: Record<string, string> = {},
): Record<string, string> {
  return {
    CNI_COMMAND: verb,
    CNI_CONTAINERID: 'c1',
    AETHER_RELAY_SOCKET: socketPath,
    PATH: process.env['PATH'] ?? '',
    ...more,
  };
}

/** Whether the standalone program ran for this verb and got this stdin. */
export const isStandalone = ({ code, stdout }: Run, verb: string, stdin: string): boolean =>
  code === 0 && stdout.toString() === `standalone ${verb} \n${stdin}`;

/** The CNI code of the one error object that was printed; its shape is checked. */
export function errorCode({ code, stdout }: Run): number {
  const object = JSON.parse(stdout.toString()) as Record<string, unknown>;
  if (code !== 1 || object['cniVersion'] !== '1.0.0' || typeof object['msg'] !== 'string') {
    throw new Error(`no CNI error: ${code} ${stdout.toString()}`);
  }
  return Number(object['code']);
}

/** Makes one call of each verb, all at once; the agent has `timeoutMs`. */
export function runVerbs(
  relay: Installed,
  { stdin, timeoutMs }: { readonly stdin: string; readonly timeoutMs: number },
): Promise<(readonly [string, Run])[]> {
  return Promise.all(
    VERBS.map(async (verb) => {
      const env = envOf(relay, verb, { AETHER_RELAY_TIMEOUT_MS: String(timeoutMs) });
      return [verb, await run(relay.path, { env, stdin })] as const;
    }),
  );
}
