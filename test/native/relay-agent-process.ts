// relay-agent-process.ts SOCKET: an agent to be stopped and killed. Prints `ready`, then a line per call it acts on; answers a
// call at once, or never where the container's id starts with `never`; after SIGUSR2 works for two seconds without looking up.
import { writeSync } from 'node:fs';
import { createRelayServer } from '../../src/adapters/relay/relay-server.ts';
import type { Log } from '../../src/core/log.ts';
import { openNative } from '../support/native.ts';

const quiet: Log = { debug() {}, info() {}, warn() {}, error() {}, child: () => quiet };
const [socketPath = ''] = process.argv.slice(2);

await createRelayServer({
  socketPath,
  mode: 0o600,
  listen: openNative().listenRelay,
  log: quiet,
  handle: ({ env }) => {
    const id = env['CNI_CONTAINERID'] ?? '';
    process.stdout.write(`acts ${env['CNI_COMMAND']} ${id}\n`);
    return id.startsWith('never') ? new Promise(() => {}) : Promise.resolve({ stdout: `agent ${id}`, exitCode: 0 });
  },
});
process.on('SIGUSR2', () => {
  writeSync(1, 'works\n');
  const end = performance.now() + 2000;
  while (performance.now() < end);
});
process.stdout.write('ready\n');
