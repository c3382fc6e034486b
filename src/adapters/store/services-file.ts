// The operator's `--services` file: read at the start and again whenever it changes, however it is replaced.
import { unwatchFile, watchFile } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { parseVipPins, type VipPins } from '../../agent/vip-pins.ts';
import { InputError, messageOf } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';

export interface ServicesFileOptions {
  readonly path: string;
  readonly log: Log;
  /** How often the file is looked at; looking sees what a watch on the file misses: a rename over it, a swapped symlink. */
  readonly pollMs?: number;
}

/** Throws InputError, naming every problem, or saying that the file cannot be read. */
export async function readServicesFile(path: string): Promise<VipPins> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    throw new InputError(`reading the services file ${path}`, [{ path: '', message: messageOf(error) }]);
  }
  const parsed = parseVipPins(text);
  if (parsed.kind === 'problems') throw new InputError(`reading the services file ${path}`, parsed.problems);
  return parsed.value;
}

/** Calls back with each new good content. A bad or missing one is logged with all its problems, and the last good one stays. */
export function watchServicesFile(options: ServicesFileOptions, onChange: (pins: VipPins) => void): Disposable {
  const { path, log } = options;
  let turn = Promise.resolve();
  const listener = (): void => {
    turn = turn.then(async () => {
      try {
        onChange(await readServicesFile(path));
        log.info('agent.services_file.changed', { path });
      } catch (error) {
        log.error('agent.services_file.refused', { path, reason: messageOf(error) });
      }
    });
  };
  watchFile(path, { interval: options.pollMs ?? 1000, persistent: false }, listener);
  return { [Symbol.dispose]: () => unwatchFile(path, listener) };
}
