// Envoy's health gateway, asked over its Unix socket; connections are kept, since it is asked every second.
import { Agent, type ClientRequest, request } from 'node:http';
import type { HealthGateway } from '../../agent/deps.ts';

const TIMEOUT_MS = 2000;

/** Connections at a time; more questions wait in line. */
const CONNECTIONS = 8;

export function createHealthGateway(socketPath: string): HealthGateway & Disposable {
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
  return {
    ask: (path) => ask({ socketPath, path, agent }, { isAgain: false }),
    [Symbol.dispose]: () => agent.destroy(),
  };
}

interface Question {
  readonly socketPath: string;
  readonly path: string;
  readonly agent: Agent;
}

function ask(question: Question, { isAgain }: { readonly isAgain: boolean }): Promise<number> {
  return new Promise((resolve, reject) => {
    const call: ClientRequest = request({ ...question, timeout: TIMEOUT_MS }, (response) => {
      response.on('error', reject);
      response.resume().on('end', () => resolve(response.statusCode ?? 0));
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
