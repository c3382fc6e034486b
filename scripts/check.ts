// npm run check, after setup: format, lint and layers, types, dead code. Each says in one line how it went; what it found
// follows.
import { spawn } from 'node:child_process';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '..');

/** Runs a command with its output kept back. One line on stdout, and the output behind it when the command failed. */
export async function runStep(name: string, command: string, args: readonly string[]): Promise<boolean> {
  const start = performance.now();
  const child = spawn(command, args, { cwd: ROOT, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => {
    output += chunk.toString();
  });
  child.stderr.on('data', (chunk: Buffer) => {
    output += chunk.toString();
  });
  const problem = await new Promise<string>((resolve) => {
    child.on('error', (error) => resolve(error.message));
    child.on('close', (code, signal) => resolve(code === 0 ? '' : `exit ${code ?? signal}`));
  });
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  process.stdout.write(`check  ${name.padEnd(24)} ${problem === '' ? 'ok' : `FAILED (${problem})`}  ${seconds} s\n`);
  if (problem !== '') process.stdout.write(output.endsWith('\n') ? output : `${output}\n`);
  return problem === '';
}

/** All checks, whatever the earlier ones found. */
export async function runChecks(): Promise<{ readonly passed: number; readonly failed: number }> {
  const bin = (name: string): string => join(ROOT, 'node_modules/.bin', name);
  const results = [
    await runStep('format, lint, layers', bin('biome'), ['check', '--max-diagnostics=50', '.']),
    await runStep('types', bin('tsc'), ['-p', '.']),
    await runStep('dead code', bin('knip'), ['--no-progress']),
    await runStep('protos', bin('buf'), ['lint', 'src/proto']),
  ];
  const passed = results.filter(Boolean).length;
  return { passed, failed: results.length - passed };
}

if (import.meta.main) process.exitCode = (await runChecks()).failed === 0 ? 0 : 1;
