// The plugin's log as the resident process keeps it: what a call says goes to the file that the call's configuration names,
// as with the full file, and to the agent's own log. The file is written when the call has its answer, so that nobody waits
// for it, and opened anew each time: the full file may write to it and set it aside, too.
import { closeSync, writeFileSync } from 'node:fs';
import { pino } from 'pino';
import type { NetConfig } from '../../cni/net-config.ts';
import { messageOf } from '../../core/errors.ts';
import type { Log, LogFields } from '../../core/log.ts';
import { RecentMap } from '../../core/recent-map.ts';
import { DEFAULT_MAX_BYTES, openCapped } from './plugin-log.ts';
import { wrapPino } from './wrap-pino.ts';

export interface CallLogsOptions {
  /** The agent's own; told, too, when a file cannot be written, once until it can be again. */
  readonly log: Log;
  readonly maxBytes?: number;
}

/** A node has one network with us in it, or two: more files than these are opened anew. */
const FILES_MAX = 8;

/** One for the life of the process; holds no descriptor between lines. */
export class CallLogs {
  readonly #options: CallLogsOptions;
  readonly #files = new RecentMap<Log>(FILES_MAX);

  constructor(options: CallLogsOptions) {
    this.#options = options;
  }

  /** Never throws, nor does what it gives. */
  open({ logFile, logLevel: level }: Pick<NetConfig, 'logFile' | 'logLevel'>): Log {
    const { log } = this.#options;
    const make = (): Log => {
      const base = { process: 'agent', pid: process.pid };
      return wrapPino(pino({ level, base, messageKey: 'event' }, new LaterFile(logFile, this.#options)));
    };
    return new TwoLogs([log, this.#files.getOrMake(`${level} ${logFile}`, make)]);
  }
}

class LaterFile {
  readonly #file: string;
  readonly #options: CallLogsOptions;
  #lines = '';
  #isFailing = false;

  constructor(file: string, options: CallLogsOptions) {
    this.#file = file;
    this.#options = options;
  }

  write(line: string): void {
    if (this.#lines === '') setImmediate(() => this.#flush());
    this.#lines += line;
  }

  #flush(): void {
    const lines = this.#lines;
    this.#lines = '';
    try {
      this.#append(lines);
      this.#isFailing = false;
    } catch (error) {
      const fields = { file: this.#file, reason: messageOf(error) };
      if (!this.#isFailing) this.#options.log.warn('agent.plugin_log.not_written', fields);
      this.#isFailing = true;
    }
  }

  #append(lines: string): void {
    const fd = openCapped(this.#file, this.#options.maxBytes ?? DEFAULT_MAX_BYTES);
    try {
      writeFileSync(fd, lines);
    } finally {
      closeSync(fd);
    }
  }
}

// Both at once. What a call's lines have in common is prepared for its first line: most calls say nothing.
class TwoLogs implements Log {
  readonly #parents: readonly Log[];
  readonly #fields: LogFields | undefined;
  #logs: readonly Log[] | undefined;

  constructor(parents: readonly Log[], fields?: LogFields) {
    this.#parents = parents;
    this.#fields = fields;
  }

  debug(event: string, fields?: LogFields): void {
    for (const log of this.#both()) log.debug(event, fields);
  }

  info(event: string, fields?: LogFields): void {
    for (const log of this.#both()) log.info(event, fields);
  }

  warn(event: string, fields?: LogFields): void {
    for (const log of this.#both()) log.warn(event, fields);
  }

  error(event: string, fields?: LogFields): void {
    for (const log of this.#both()) log.error(event, fields);
  }

  child(fields: LogFields): Log {
    return new TwoLogs(this.#both(), fields);
  }

  #both(): readonly Log[] {
    const fields = this.#fields;
    this.#logs ??= fields === undefined ? this.#parents : this.#parents.map((log) => log.child(fields));
    return this.#logs;
  }
}
