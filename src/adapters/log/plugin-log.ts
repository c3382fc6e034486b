// The plugin's log: JSON lines in a file that cannot grow without end, written at once. It never fails a call: what cannot
// be written is left out, and said once on stderr. Nothing of it can reach stdout.
import { closeSync, constants, fstatSync, mkdirSync, openSync, renameSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { pino } from 'pino';
import { messageOf } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import { wrapPino } from './wrap-pino.ts';

export interface PluginLogOptions {
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  /** Absolute path; its directory is made where it is missing. */
  readonly file: string;
  /** Beyond this the file becomes `<file>.1`, in place of an older one. Default 5 MiB. */
  readonly maxBytes?: number;
  /** Told once why there is no log. */
  readonly note: (sentence: string) => void;
}

export const DEFAULT_MAX_BYTES: number = 5 * 1024 * 1024;
const STDOUT_FD = 1;

/** Never throws. The file stays open for the life of the process. */
export function openPluginLog({ level, file, maxBytes = DEFAULT_MAX_BYTES, note }: PluginLogOptions): Log {
  const target = openTarget(file, { maxBytes, note });
  return wrapPino(pino({ level, base: { process: 'plugin', pid: process.pid }, messageKey: 'event' }, target));
}

interface Target {
  write(line: string): void;
}

function openTarget(
  file: string,
  { maxBytes, note }: { readonly maxBytes: number; readonly note: (sentence: string) => void },
): Target {
  let fd: number | undefined;
  const giveUp = (error: unknown): void => {
    fd = undefined;
    note(`no log is written to ${file}: ${messageOf(error)}`);
  };
  try {
    fd = openCapped(file, maxBytes);
  } catch (error) {
    giveUp(error);
  }
  return {
    write(line) {
      if (fd === undefined) return;
      try {
        writeSync(fd, line);
      } catch (error) {
        giveUp(error);
      }
    },
  };
}

/**
 * Opens the file for appending; one that is too large becomes `<file>.1` before. The caller closes the descriptor. Throws
 * whatever stands against it: a directory that cannot be made, a file that is none, or that is stdout.
 */
export function openCapped(file: string, maxBytes: number): number {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  const fd = openAppending(file);
  if (fstatSync(fd).size <= maxBytes) return fd;
  closeSync(fd);
  renameSync(file, `${file}.1`);
  return openAppending(file);
}

function openAppending(file: string): number {
  // O_NONBLOCK: a named pipe without a reader must be refused, not waited for.
  const { O_APPEND, O_CREAT, O_WRONLY, O_NONBLOCK } = constants;
  const fd = openSync(file, O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK, 0o600);
  const reason = findObjection(fd);
  if (reason === undefined) return fd;
  closeSync(fd);
  throw new Error(reason);
}

// The result goes to stdout: a log that is the same file, by whatever name, would destroy it.
function findObjection(fd: number): string | undefined {
  const stat = fstatSync(fd);
  if (!stat.isFile()) return 'it is not a regular file';
  try {
    const stdout = fstatSync(STDOUT_FD);
    return stat.dev === stdout.dev && stat.ino === stdout.ino ? 'it is stdout' : undefined;
  } catch {
    // stdout is closed.
    return undefined;
  }
}
