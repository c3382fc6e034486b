// The CNI_* variables of one call (CNI specification 1.1.0, section 2). What a verb needs is checked for all variables at
// once; DEL alone never fails on any.
import { EnvironmentError } from '../core/errors.ts';
import {
  type ContainerId,
  type InterfaceName,
  type NetnsPath,
  parseContainerId,
  parseInterfaceName,
  parseNetnsPath,
} from '../core/identifiers.ts';
import { type Problem, ProblemList, quoteValue } from '../core/problems.ts';
import { type CniArgs, NO_ARGS, parseCniArgs } from './cni-args.ts';

export const VERBS = ['ADD', 'DEL', 'CHECK', 'GC', 'STATUS', 'VERSION'] as const;
export type Verb = (typeof VERBS)[number];

/** Variables by name, as `process.env` has them or the relay sent them. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** One container's attachment, as ADD and CHECK name it. */
export interface Attachment {
  readonly containerId: ContainerId;
  readonly netns: NetnsPath;
  readonly ifname: InterfaceName;
  readonly args: CniArgs;
}

/** What DEL could make of its variables. Undefined: not given, empty, or not usable (then a warning says so). */
export interface Detachment {
  readonly containerId: ContainerId | undefined;
  readonly netns: NetnsPath | undefined;
  readonly ifname: InterfaceName | undefined;
  readonly args: CniArgs;
  readonly warnings: readonly Problem[];
}

/** CNI_COMMAND. Throws EnvironmentError. */
export function parseVerb(env: Environment): Verb {
  const text = env['CNI_COMMAND'] ?? '';
  if (VERBS.includes(text as Verb)) return text as Verb;
  const message = `must be one of ${VERBS.join(', ')}, got ${quoteValue(text)}`;
  throw new EnvironmentError([{ path: 'CNI_COMMAND', message }]);
}

/** The variables of ADD and CHECK, all of them required but CNI_ARGS. Throws EnvironmentError with every problem. */
export function parseAttachment(env: Environment): Attachment {
  const list = new ProblemList();
  const containerId = readVariable(env, 'CNI_CONTAINERID', { parse: parseContainerId, list });
  const netns = readVariable(env, 'CNI_NETNS', { parse: parseNetnsPath, list });
  const ifname = readVariable(env, 'CNI_IFNAME', { parse: parseInterfaceName, list });
  const args = parseCniArgs(env['CNI_ARGS'] ?? '');
  if (args.kind === 'problems') list.addAll(args.problems);
  if (containerId === undefined || netns === undefined || ifname === undefined || args.kind === 'problems') {
    throw new EnvironmentError(list.problems);
  }
  return { containerId, netns, ifname, args: args.value };
}

/** The variables of DEL, as far as they can be used: a second DEL has an empty CNI_NETNS, a broken runtime anything. */
export function parseDetachment(env: Environment): Detachment {
  const list = new ProblemList();
  const containerId = readVariable(env, 'CNI_CONTAINERID', { parse: parseContainerId, list });
  const netns = env['CNI_NETNS'] ? readVariable(env, 'CNI_NETNS', { parse: parseNetnsPath, list }) : undefined;
  const ifname = env['CNI_IFNAME'] ? readVariable(env, 'CNI_IFNAME', { parse: parseInterfaceName, list }) : undefined;
  const args = parseCniArgs(env['CNI_ARGS'] ?? '');
  if (args.kind === 'problems') list.addAll(args.problems);
  return { containerId, netns, ifname, args: args.kind === 'value' ? args.value : NO_ARGS, warnings: list.problems };
}

type Parser<T> = (text: string) => T | { readonly problem: string };

function readVariable<T extends string>(
  env: Environment,
  name: string,
  { parse, list }: { readonly parse: Parser<T>; readonly list: ProblemList },
): T | undefined {
  const text = env[name] ?? '';
  if (text === '') {
    list.add(name, 'is required and missing or empty');
    return undefined;
  }
  const parsed = parse(text);
  if (typeof parsed === 'string') return parsed;
  list.add(name, `${parsed.problem}, got ${quoteValue(text)}`);
  return undefined;
}
