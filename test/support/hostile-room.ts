// The room of a test file in test/hostile that runs real processes: import it first. Outside it starts the test file again in
// a room (scripts/lab/sandbox.ts), whose end removes every process, mount and namespace; inside it gives the test runner.
import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { type AgentPlaces, agentPlaces } from '../../scripts/lab/agent.ts';
import { prepareNode } from '../../scripts/lab/network.ts';
import { enterSandbox } from '../../scripts/lab/sandbox.ts';

/** Where the room has an empty tmpfs of its own: a DEL with a broken configuration goes to the default paths. */
const HIDDEN_DIRS = ['/run', '/var/lib/aether', '/var/log/aether-cni'];

const { dir } = await enterSandbox(process.argv[1] ?? '');
for (const hidden of HIDDEN_DIRS) {
  mkdirSync(hidden, { recursive: true });
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'mode=0755', 'aether-test', hidden]);
}
mkdirSync('/run/netns');
prepareNode();

/** The room's directory, with a short path. */
export const ROOM_DIR: string = dir;
/** Where everything of the room's agent lies. */
export const PLACES: AgentPlaces = agentPlaces(dir);

/** Kills, parallel calls, random cases: 20 in CI, more for a long look. */
export const ROUNDS: number = Number(process.env['AETHER_TEST_ROUNDS'] ?? 20);

/** tap, loaded only in the room: it would report for the outer process, too. */
export const { default: t } = await import('tap');
