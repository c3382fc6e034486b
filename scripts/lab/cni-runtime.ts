// Runs a CNI configuration list as a container runtime does (libcni's order, environment and injected keys): ADD in
// order with each result handed to the next, DEL in reverse with the result of ADD.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';

export type Json = Readonly<Record<string, unknown>>;
export type CniCommand = 'ADD' | 'DEL' | 'CHECK' | 'GC' | 'STATUS' | 'VERSION';

/** One plugin of a list: `type` names the executable. */
export interface PluginConfig extends Json {
  readonly type: string;
  readonly capabilities?: Readonly<Record<string, boolean>>;
}

export interface NetworkList {
  readonly cniVersion: string;
  readonly name: string;
  readonly plugins: readonly PluginConfig[];
}

/** A sandbox to attach. `capabilities` holds what the runtime offers by capability name (annotations). */
export interface Attachment {
  readonly containerId: string;
  readonly netns: string;
  readonly ifname: string;
  readonly args: Readonly<Record<string, string>>;
  readonly capabilities: Json;
}

/** What an executable did: nothing is interpreted. */
export interface PluginRun {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
  readonly ms: number;
}

/** A plugin failed; `error` is its CNI error object (`{cniVersion, code, msg, details?}`) where it printed one. */
class PluginFailure extends Error {
  readonly error: Json | undefined;
  readonly run: PluginRun;

  constructor(what: string, run: PluginRun) {
    super(`${what}: exit ${run.exitCode}: ${run.stdout.trim() || run.stderr.trim() || 'no output'}`);
    this.run = run;
    this.error = readObject(run.stdout);
  }
}

/** CNI_* variables of one call on an attachment. */
export function cniEnvironment(
  command: CniCommand,
  attachment: Attachment,
  pluginDirs: readonly string[],
): Record<string, string> {
  return {
    CNI_COMMAND: command,
    CNI_CONTAINERID: attachment.containerId,
    CNI_NETNS: attachment.netns,
    CNI_IFNAME: attachment.ifname,
    CNI_ARGS: Object.entries(attachment.args)
      .map(([key, value]) => `${key}=${value}`)
      .join(';'),
    CNI_PATH: pluginDirs.join(':'),
  };
}

/** Starts an executable with the environment added to ours and `stdin` written to it. */
export function runPlugin(
  file: string,
  stdin: string,
  options: { readonly env: Readonly<Record<string, string>> },
): Promise<PluginRun> {
  return new Promise((resolve, reject) => {
    const start = performance.now();
    const child = spawn(file, [], { env: { ...process.env, ...options.env } });
    let stdout = '';
    let stderr = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text;
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr += text;
    });
    child.once('error', reject);
    child.once('close', (code) =>
      resolve({ exitCode: code ?? 255, stdout, stderr, ms: Math.round((performance.now() - start) * 10) / 10 }),
    );
    // A plugin that does not read stdin (VERSION) closes it first.
    child.stdin.on('error', () => {});
    child.stdin.end(stdin);
  });
}

/** The standard input of one plugin of a list: name, version, previous result and runtimeConfig filled in. */
export function pluginInput(
  list: NetworkList,
  plugin: PluginConfig,
  options: { readonly capabilities: Json; readonly prevResult?: Json },
): string {
  const offered = Object.entries(plugin.capabilities ?? {}).filter(
    ([name, wanted]) => wanted && options.capabilities[name] !== undefined,
  );
  const runtimeConfig = Object.fromEntries(offered.map(([name]) => [name, options.capabilities[name]]));
  return JSON.stringify({
    ...plugin,
    name: list.name,
    cniVersion: list.cniVersion,
    ...(offered.length > 0 ? { runtimeConfig } : {}),
    ...(options.prevResult === undefined ? {} : { prevResult: options.prevResult }),
  });
}

/** A container runtime's CNI side. `pluginDirs` as in CNI_PATH, the first that has the executable wins. */
export class CniRuntime {
  readonly #pluginDirs: readonly string[];

  constructor(pluginDirs: readonly string[]) {
    this.#pluginDirs = pluginDirs;
  }

  /** ADD through the list. When a plugin fails, what stands is removed again and its PluginFailure is thrown. */
  async add(list: NetworkList, attachment: Attachment): Promise<Json> {
    let result: Json | undefined;
    try {
      for (const plugin of list.plugins) {
        const run = await this.#run('ADD', { list, plugin, attachment, prevResult: result });
        result = readObject(run.stdout);
        if (result === undefined) throw new PluginFailure(`ADD ${plugin.type} gave no result`, run);
      }
    } catch (error) {
      await this.delete(list, attachment).catch(() => {});
      throw error;
    }
    return result ?? {};
  }

  /** DEL through the list in reverse; stops at the first failure, as libcni does. */
  async delete(list: NetworkList, attachment: Attachment, prevResult?: Json): Promise<void> {
    for (const plugin of [...list.plugins].reverse()) {
      await this.#run('DEL', { list, plugin, attachment, prevResult });
    }
  }

  /** CHECK through the list with the result of ADD. */
  async check(list: NetworkList, attachment: Attachment, prevResult: Json): Promise<void> {
    for (const plugin of list.plugins) await this.#run('CHECK', { list, plugin, attachment, prevResult });
  }

  async #run(
    command: CniCommand,
    call: {
      readonly list: NetworkList;
      readonly plugin: PluginConfig;
      readonly attachment: Attachment;
      readonly prevResult: Json | undefined;
    },
  ): Promise<PluginRun> {
    const { list, plugin, attachment, prevResult } = call;
    const file = this.#pluginDirs.map((dir) => join(dir, plugin.type)).find((path) => existsSync(path));
    if (file === undefined) throw new Error(`${command} ${plugin.type}: not in ${this.#pluginDirs.join(', ')}`);
    const stdin = pluginInput(list, plugin, {
      capabilities: attachment.capabilities,
      ...(prevResult === undefined ? {} : { prevResult }),
    });
    const run = await runPlugin(file, stdin, { env: cniEnvironment(command, attachment, this.#pluginDirs) });
    if (run.exitCode !== 0) throw new PluginFailure(`${command} ${plugin.type}`, run);
    return run;
  }
}

function readObject(text: string): Json | undefined {
  try {
    const value: unknown = JSON.parse(text);
    // What a plugin printed is JSON of any shape; only an object can be a result or an error.
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : undefined;
  } catch {
    return undefined;
  }
}
