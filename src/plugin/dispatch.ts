// One CNI call from its raw parts to its answer: in the started program as in the agent behind the relay. Nothing here
// writes anywhere: whoever called prints the answer, once, as its last act.

import { parseCaptureDefaults } from '../capture/parse-policy.ts';
import { readCallConfig } from '../cni/call-config.ts';
import { type Environment, parseAttachment, parseDetachment, parseVerb, type Verb } from '../cni/environment.ts';
import { formatErrorObject, toErrorObject } from '../cni/error-object.ts';
import type { JsonNode } from '../cni/json.ts';
import { defaultNetConfig, type NetConfig, parseConfigVersion } from '../cni/net-config.ts';
import { type CniVersion, formatVersionAnswer, isSupportedVersion, LATEST_VERSION } from '../cni/versions.ts';
import { InputError, messageOf } from '../core/errors.ts';
import type { LogFields } from '../core/log.ts';
import { formatProblem, type Problem } from '../core/problems.ts';
import { addAttachment } from './add.ts';
import type { CallContext } from './call-context.ts';
import { checkAttachment } from './check.ts';
import { deleteAttachment } from './del.ts';
import type { NodeDeps } from './deps.ts';
import { collectGarbage } from './gc.ts';
import { reportStatus } from './status.ts';

export interface CniCall {
  readonly env: Environment;
  /** Read at most once, and not at all for VERSION. Throws StoreError. */
  readonly readStdin: () => string | Uint8Array | Promise<Uint8Array>;
  /** Aborted when the call is no longer wanted; its reason becomes the answer and an ADD is undone. */
  readonly signal?: Pick<AbortSignal, 'throwIfAborted'>;
}

/** `stdout`: one JSON document or nothing. `stderr`: sentences, a line each, or nothing. */
export interface CniAnswer {
  readonly stdout: string;
  readonly stderr: string;
  readonly exitCode: 0 | 1;
}

/**
 * Opens what the call needs, after everything was read; `about` is part of all that is logged. Must touch nothing of the node
 * by itself.
 */
export type OpenDeps = (config: NetConfig, about: LogFields) => NodeDeps | Promise<NodeDeps>;

/** More than this about unknown keys helps nobody. */
const WARNINGS_MAX = 20;

/** Never throws. */
export async function answerCall(call: CniCall, openDeps: OpenDeps): Promise<CniAnswer> {
  const run = new CallRun(call, openDeps);
  try {
    const stdout = await run.answer(parseVerb(call.env));
    return { stdout, stderr: run.stderr, exitCode: 0 };
  } catch (error) {
    // DEL always ends well.
    if (call.env['CNI_COMMAND'] === 'DEL') {
      run.warn(messageOf(error));
      return { stdout: '', stderr: run.stderr, exitCode: 0 };
    }
    return { stdout: formatErrorObject(toErrorObject(error, run.version)), stderr: run.stderr, exitCode: 1 };
  }
}

class CallRun {
  readonly #call: CniCall;
  readonly #openDeps: OpenDeps;
  readonly #warnings: string[] = [];
  /** The configuration's, as soon as it is known. */
  version: CniVersion = LATEST_VERSION;

  constructor(call: CniCall, openDeps: OpenDeps) {
    this.#call = call;
    this.#openDeps = openDeps;
  }

  get stderr(): string {
    return this.#warnings.map((sentence) => `aether-cni: ${sentence}\n`).join('');
  }

  readonly warn = (sentence: string): void => {
    // One line each, whatever was quoted.
    this.#warnings.push(sentence.replace(/[\r\n]+/g, ' '));
  };

  async answer(verb: Verb): Promise<string> {
    if (verb === 'VERSION') return formatVersionAnswer();
    if (verb === 'DEL') return this.#delete();
    const attachment = verb === 'ADD' || verb === 'CHECK' ? parseAttachment(this.#call.env) : undefined;
    const { version, config, problems, warnings } = readCallConfig(await this.#call.readStdin());
    this.#rememberVersion(version);
    this.version = parseConfigVersion(version, verb);
    this.#warnOf(warnings);
    assertGood(config, problems);
    const context = await this.#open(verb, config);
    try {
      if (attachment === undefined) await (verb === 'GC' ? collectGarbage(context) : reportStatus(context));
      else if (verb === 'ADD') return await addAttachment(attachment, context);
      else await checkAttachment(attachment, context);
      return '';
    } catch (error) {
      context.deps.log.error('cni.call.failed', { reason: messageOf(error) });
      throw error;
    }
  }

  async #delete(): Promise<string> {
    const detachment = parseDetachment(this.#call.env);
    const config = await this.#readConfigForDelete();
    await deleteAttachment(detachment, await this.#open('DEL', config));
    return '';
  }

  // Any version and any mistake will do: what is readable is used, defaults stand in for the rest.
  async #readConfigForDelete(): Promise<NetConfig> {
    try {
      const { config, problems, warnings } = readCallConfig(await this.#call.readStdin());
      this.#warnOf([...problems, ...warnings]);
      return config;
    } catch (error) {
      this.warn(`DEL goes on with defaults: ${messageOf(error)}`);
      return defaultNetConfig();
    }
  }

  // For the error object of a version that the verb is too new for.
  #rememberVersion(value: JsonNode | undefined): void {
    if (value?.kind === 'string' && isSupportedVersion(value.value)) this.version = value.value;
  }

  #warnOf(problems: readonly Problem[]): void {
    for (const problem of problems.slice(0, WARNINGS_MAX)) this.warn(formatProblem(problem));
    if (problems.length > WARNINGS_MAX) this.warn(`and ${problems.length - WARNINGS_MAX} more of that kind`);
  }

  async #open(verb: Verb, config: NetConfig): Promise<CallContext<NodeDeps>> {
    const { CNI_CONTAINERID: containerId, CNI_NETNS: netns, CNI_IFNAME: ifname } = this.#call.env;
    const deps = await this.#openDeps(config, { verb, containerId, netns, ifname });
    const context = { config, version: this.version, deps, warn: this.warn };
    const { signal } = this.#call;
    return signal === undefined ? context : { ...context, signal };
  }
}

// What does not depend on the pod is told at once, and by STATUS, too.
function assertGood(config: NetConfig, problems: readonly Problem[]): void {
  const defaults = parseCaptureDefaults(config);
  const all = defaults.kind === 'problems' ? [...problems, ...defaults.problems] : problems;
  if (all.length > 0) throw new InputError('reading the network configuration', all);
}
