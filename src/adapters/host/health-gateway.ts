// Envoy's health gateway, asked over its Unix socket; connections are kept, since a pod that starts is asked for often.
import { existsSync } from 'node:fs';
import { Agent, type ClientRequest, request } from 'node:http';
import type { HealthGateway } from '../../agent/deps.ts';
import { ALL_HEALTHY_PATH } from '../../xds/health.ts';

const TIMEOUT_MS = 2000;

/** Connections at a time; more questions wait in line. */
const CONNECTIONS = 8;

/** Connects when it is asked; disposing ends the connections that are kept. */
export function createHealthGateway(socketPath: string): HealthGateway & Disposable {
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
  let hasAnswered = false;
  return {
    ask: async (path) => {
      // Before Envoy has come this is asked often: a look costs nothing, a connection that fails does.
      if (!hasAnswered && !existsSync(socketPath)) throw absent(socketPath);
      hasAnswered = false;
      // The answer about all is about those that the listener knows: never by a connection to an older one.
      const question = { socketPath, path, agent: path === ALL_HEALTHY_PATH ? (false as const) : agent };
      const status = await ask(question, { isAgain: false });
      hasAnswered = true;
      return status;
    },
    [Symbol.dispose]: () => agent.destroy(),
  };
}

interface Question {
  readonly socketPath: string;
  readonly path: string;
  /** False: a connection of its own. */
  readonly agent: Agent | false;
}

function ask(question: Question, { isAgain }: { readonly isAgain: boolean }): Promise<number> {
  return new Promise((resolve, reject) => {
    const call: ClientRequest = request({ ...question, timeout: TIMEOUT_MS }, (response) => {
      response.on('error', reject);
      response.resume().on('end', () => {
        const { statusCode: status = 0 } = response;
        // A connection stays with the listener as it was when it was made, for minutes: that one may not know the pod yet.
        if (status !== 404 || !call.reusedSocket || isAgain) resolve(status);
        else resolve(ask({ ...question, agent: false }, { isAgain: true }));
      });
    });
    call.on('timeout', () => call.destroy(new Error(`no answer in ${TIMEOUT_MS} ms`)));
    call.on('error', (error) => {
      // Envoy closes idle connections, and all of them when the listener changes: that one was not heard.
      if (call.reusedSocket && !isAgain) resolve(ask(question, { isAgain: true }));
      else reject(error);
    });
    call.end();
  });
}

// As connecting would say it.
function absent(path: string): Error {
  return Object.assign(new Error(`connect ENOENT ${path}`), { code: 'ENOENT' });
}
