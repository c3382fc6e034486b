// The program as a person runs it, from the source tree; never waits on this process's own event loop being free.
import { execFile } from 'node:child_process';
import { join } from 'node:path';

const MAIN = join(import.meta.dirname, '../../src/main.ts');

export interface ToolRun {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** One that does not end within a minute is killed: exit code -1. */
export function runTool(args: readonly string[], options: { readonly uid?: number } = {}): Promise<ToolRun> {
  const env: NodeJS.ProcessEnv = { ...process.env };
  delete env['CNI_COMMAND'];
  return new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      [MAIN, ...args],
      { env, timeout: 60_000, maxBuffer: 64 * 1024 * 1024, ...options },
      (_error, stdout, stderr) => resolve({ exitCode: child.exitCode ?? -1, stdout, stderr }),
    );
  });
}
