// The benchmark's C programs, compiled into build/bench where the source is newer.
import { execFileSync } from 'node:child_process';
import { mkdirSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { ROOT } from '../lab/places.ts';

export interface ProgramSource {
  readonly source: string;
  /** Compiler and flags. */
  readonly compile: readonly [string, ...string[]];
  readonly libraries?: readonly string[];
}

/** Returns the program's path. */
export function buildProgram({ source, compile, libraries = [] }: ProgramSource): string {
  const dir = join(ROOT, 'build/bench');
  const program = join(dir, basename(source, '.c'));
  mkdirSync(dir, { recursive: true });
  const builtMs = statSync(program, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  const [compiler, ...flags] = compile;
  if (builtMs < statSync(source).mtimeMs) execFileSync(compiler, [...flags, '-o', program, source, ...libraries]);
  return program;
}
