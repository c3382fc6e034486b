// The full file in the place of the relay: as a plugin it asks the agent first, at the same socket and with the same bytes,
// because an agent that is there does a call in a twentieth of the time. docs/decisions/0020.
import { basename } from 'node:path';
import { type AskOptions, askAgent, type Reply } from '../adapters/relay/ask-agent.ts';
import type { Environment } from '../cni/environment.ts';
import { ENV_BYTES_MAX, encodeRequest, REQUEST_HEADER_BYTES } from '../cni/relay-frame.ts';
import { DEFAULT_CNI_SOCKET, DEFAULT_RELAY_SOCKET } from '../core/default-paths.ts';

/** As native/relay.c starts it, which has asked already. */
const STANDALONE = 'aether-cni-standalone';

// As in native/relay.c. It looks besides whether an agent that does not take the call is only busy, and waits longer then.
const AGENT_MS = 5000;
const SPARE_MS = 10_000;
const HURRIED_MS = 1000;
const TIMEOUT_MAX_MS = 600_000;

/** Verbs that are handed over -> whether the agent may have done it, too. */
const VERBS: ReadonlyMap<string | undefined, 'repeatable' | 'once'> = new Map([
  ['ADD', 'once'],
  ['DEL', 'repeatable'],
  ['CHECK', 'repeatable'],
  ['GC', 'repeatable'],
  ['STATUS', 'repeatable'],
]);

/** Whether a call is one for the agent: of a known verb, and not handed on by the relay. `programs`: names of this one. */
export function isForAgent(env: Environment, programs: readonly string[]): boolean {
  return VERBS.has(env['CNI_COMMAND']) && !programs.some((path) => basename(path) === STANDALONE);
}

/** `undone`: to be done here; `unknown`: an ADD that the agent may have done half. Never rejects. */
export async function relayCall(env: Environment, stdin: Buffer): Promise<Reply> {
  const plan = planRelayCall(env, stdin);
  if (plan === undefined) return { kind: 'undone' };
  const reply = await askAgent(plan.request, plan);
  return reply.kind === 'unknown' && VERBS.get(env['CNI_COMMAND']) === 'repeatable' ? { kind: 'undone' } : reply;
}

/** What is sent, where, and how long it may take; undefined: no agent is to be asked. */
export function planRelayCall(
  env: Environment,
  stdin: Buffer,
): (AskOptions & { readonly request: Buffer }) | undefined {
  const { agentSocket = DEFAULT_CNI_SOCKET, agentMs } = readHints(stdin);
  const given = env['AETHER_RELAY_SOCKET'];
  // A configuration that names another agent than the one at the usual place means that one.
  if (!given && agentSocket !== DEFAULT_CNI_SOCKET) return undefined;
  const variables = Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined);
  const request = encodeRequest(Object.fromEntries(variables), stdin);
  if (request.length - REQUEST_HEADER_BYTES - stdin.length > ENV_BYTES_MAX) return undefined;
  const isHurried = env['CNI_COMMAND'] === 'DEL' || env['CNI_COMMAND'] === 'STATUS';
  return {
    request,
    socketPath: given || DEFAULT_RELAY_SOCKET,
    takeMs: isHurried ? HURRIED_MS : agentMs,
    answerMs: parseTimeout(env['AETHER_RELAY_TIMEOUT_MS']) ?? agentMs + SPARE_MS,
  };
}

interface Hints {
  readonly agentSocket?: string;
  readonly agentMs: number;
}

// What is wrong with a configuration is said by whoever answers the call.
function readHints(stdin: Buffer): Hints {
  const { agent_cni_path: agentSocket, agent_timeout_ms: timeout } = readObject(stdin);
  return {
    ...(typeof agentSocket === 'string' ? { agentSocket } : {}),
    agentMs: (typeof timeout === 'number' ? parseTimeout(String(timeout)) : undefined) ?? AGENT_MS,
  };
}

function readObject(stdin: Buffer): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(stdin.toString());
    return typeof value === 'object' && value !== null ? { ...value } : {};
  } catch {
    return {};
  }
}

function parseTimeout(text = ''): number | undefined {
  const value = /^\d+$/.test(text) ? Number(text) : 0;
  return value > 0 && value <= TIMEOUT_MAX_MS ? value : undefined;
}
