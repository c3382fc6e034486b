// Fault points of a real process: scripts/faults/fault.c, preloaded, kills it just before the Nth thing it does to the world.
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from '../../scripts/lab/places.ts';
import { ROOM_DIR } from './hostile-room.ts';

const LIBRARY = join(ROOM_DIR, 'test-fault.so');

function library(): string {
  if (!existsSync(LIBRARY)) {
    const flags = ['-std=gnu11', '-Wall', '-Wextra', '-Werror', '-O1', '-shared', '-fPIC'];
    execFileSync('gcc', [...flags, '-o', LIBRARY, join(ROOT, 'scripts/faults/fault.c')]);
  }
  return LIBRARY;
}

/** One process's fault points. `env` is what it must be started with; until `arm` nothing happens to it. */
export class FaultPoints {
  readonly env: Readonly<Record<string, string>>;
  readonly #arm: string;
  readonly #log: string;

  /** `name`: of the files of this process, free. */
  constructor(name: string) {
    this.#arm = join(ROOM_DIR, `test-arm-${name}`);
    this.#log = join(ROOM_DIR, `test-steps-${name}`);
    this.env = {
      LD_PRELOAD: library(),
      AETHER_FAULT_ARM: this.#arm,
      AETHER_FAULT_LOG: this.#log,
      // Asked every second, whatever else happens.
      AETHER_FAULT_SKIP: 'health.sock',
    };
  }

  /** From now on steps are counted, and the Nth is not done; 0 only counts. Once a process. */
  arm(step: number): void {
    rmSync(this.#log, { force: true });
    writeFileSync(this.#arm, String(step));
  }

  /** For the process that is started next. */
  disarm(): void {
    rmSync(this.#arm, { force: true });
  }

  /** What was counted since `arm`: `mount -`, `open c1.json`. */
  listSteps(): readonly string[] {
    return existsSync(this.#log) ? readFileSync(this.#log, 'utf8').trim().split('\n') : [];
  }
}

/** Environment of a process that is denied (EACCES) a call on paths with this part: `bind`, `open`, `mkdir`, … */
export function denial(call: string, pathPart: string): Readonly<Record<string, string>> {
  return { LD_PRELOAD: library(), AETHER_FAULT_DENY: `${call} ${pathPart}` };
}
