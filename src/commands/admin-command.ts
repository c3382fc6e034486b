// What the commands that ask the agent have in common: the flag that says where, how they end, and how they print.

import type { Command } from 'commander';
import { DEFAULT_ADMIN_SOCKET, DEFAULT_CNI_CONF_DIR } from '../core/default-paths.ts';
import { AgentError, InputError, messageOf } from '../core/errors.ts';
import { onOneLine } from '../core/one-line.ts';

export interface AdminFlags {
  readonly adminSocket: string;
  readonly json?: boolean;
}

/** Adds `--admin-socket`; AETHER_ADMIN_SOCKET is its default where it is set. */
export function addAdminSocket(command: Command): Command {
  return command.option(
    '--admin-socket <PATH>',
    "the agent's admin socket (AETHER_ADMIN_SOCKET)",
    process.env['AETHER_ADMIN_SOCKET'] || DEFAULT_ADMIN_SOCKET,
  );
}

/** Adds `--cni-conf-dir`. */
export function addConfDir(command: Command): Command {
  return command.option('--cni-conf-dir <DIR>', "the runtime's network configuration", DEFAULT_CNI_CONF_DIR);
}

/** Prints what `build` gives and sets exit code 0; or says on stderr why not: 2 for wrong use, else 1. */
export async function printOrFail(name: string, build: () => Promise<string>): Promise<void> {
  try {
    await writeOut(await build());
    process.exitCode = 0;
  } catch (error) {
    process.stderr.write(`aether-cni ${name}: ${onOneLine(messageOf(error))}\n`);
    process.exitCode = error instanceof InputError ? 2 : 1;
  }
}

/** Throws AgentError: sockets, records and namespaces of pods are root's alone. */
export function assertRoot(): void {
  if (process.getuid?.() !== 0) throw new AgentError('rejected', 'only root may do this: run it as root');
}

/** Resolves when stdout has taken all of it; a reader that has gone away (`| head`) is no failure. */
export function writeOut(text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    process.stdout.once('error', (error) => ('code' in error && error.code === 'EPIPE' ? resolve() : reject(error)));
    process.stdout.write(text, () => resolve());
  });
}

/** Reads every argument; what is wrong with several of them is one InputError. */
export function readAll<T extends readonly unknown[]>(...reads: { readonly [I in keyof T]: () => T[I] }): T {
  const errors: InputError[] = [];
  const values = reads.map((read) => {
    try {
      return read();
    } catch (error) {
      if (!(error instanceof InputError)) throw error;
      errors.push(error);
      return undefined;
    }
  });
  if (errors[0] !== undefined && errors.length === 1) throw errors[0];
  if (errors.length > 0)
    throw new InputError(
      'arguments',
      errors.map(({ message }) => ({ path: '', message })),
    );
  // One for each, as nothing was wrong.
  return values as unknown as T;
}

/** A pod as it is named on the command line: `<namespace>/<pod>` or a container id. Throws InputError. */
export function parseSubject(text: string): string {
  if (/^[a-z0-9]([-a-z0-9]*[a-z0-9])?\/[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/.test(text)) return text;
  if (/^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/.test(text)) return text;
  const message = `must be NAMESPACE/POD or a container id, got ${JSON.stringify(text)}`;
  throw new InputError('POD', [{ path: '', message }]);
}
