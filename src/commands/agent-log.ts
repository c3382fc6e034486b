// The agent's log: JSON lines on stderr, written at once, so that the last line before a crash is there.
import { writeSync } from 'node:fs';
import { pino } from 'pino';
import { wrapPino } from '../adapters/log/wrap-pino.ts';
import type { Log } from '../core/log.ts';

const STDERR_FD = 2;

/** Never throws, nor does what it gives, whatever happens to stderr. */
export function createAgentLog(level: 'debug' | 'info' | 'warn' | 'error'): Log {
  return wrapPino(pino({ level, base: { process: 'agent' }, messageKey: 'event' }, new LineWriter(STDERR_FD)));
}

/**
 * Writes lines to a descriptor whose disk may be full, whose reader may be gone or slow: none of that may end or stop the
 * agent. Lines that cannot be written are lost; the next one that can says how many.
 */
export class LineWriter {
  readonly #fd: number;
  #lost = 0;
  /** A line was written in part. */
  #isCut = false;

  constructor(fd: number) {
    this.#fd = fd;
  }

  write(line: string): void {
    const notice = { level: 40, time: Date.now(), process: 'agent', lines: this.#lost, event: 'agent.log.lost' };
    const before = this.#lost === 0 ? '' : `${JSON.stringify(notice)}\n`;
    if (this.#writeWhole(`${this.#isCut ? '\n' : ''}${before}${line}`)) this.#lost = 0;
    else this.#lost++;
  }

  #writeWhole(text: string): boolean {
    const bytes = Buffer.from(text);
    let done = 0;
    try {
      while (done < bytes.length) done += writeSync(this.#fd, bytes, done);
      this.#isCut = false;
      return true;
    } catch {
      this.#isCut ||= done > 0;
      return false;
    }
  }
}
