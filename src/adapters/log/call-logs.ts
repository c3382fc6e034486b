// The plugin's log as the resident process keeps it: what a call says goes to the file that the call's configuration names,
// as with the full file, and to the agent's own log. Both are written when the event loop comes round, so that no answer waits
// for them. The file is opened anew each time: the full file may write to it and set it aside, too.
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

type Level = 'debug' | 'info' | 'warn' | 'error';

interface Entry {
  readonly file: CallFile;
  readonly level: Level;
  readonly event: string;
  readonly fields: LogFields;
}

/** One for the life of the process; holds no descriptor between lines. */
export class CallLogs {
  readonly #options: CallLogsOptions;
  readonly #files = new RecentMap<CallFile>(FILES_MAX);
  #entries: Entry[] = [];

  constructor(options: CallLogsOptions) {
    this.#options = options;
  }

  /** Never throws, nor does what it gives. */
  open({ logFile, logLevel }: Pick<NetConfig, 'logFile' | 'logLevel'>): Log {
    const make = (): CallFile => new CallFile(logFile, logLevel, this.#options);
    const file = this.#files.getOrMake(`${logLevel} ${logFile}`, make);
    return new CallLog((level, event, fields) => this.#add({ file, level, event, fields }), {});
  }

  #add(entry: Entry): void {
    if (this.#entries.length === 0) setImmediate(() => this.#flush());
    this.#entries.push(entry);
  }

  #flush(): void {
    const entries = this.#entries;
    this.#entries = [];
    for (const { file, level, event, fields } of entries) {
      this.#options.log[level](event, fields);
      file.log[level](event, fields);
    }
    for (const file of new Set(entries.map((entry) => entry.file))) file.flush();
  }
}

class CallLog implements Log {
  readonly #add: (level: Level, event: string, fields: LogFields) => void;
  readonly #bound: LogFields;

  constructor(add: (level: Level, event: string, fields: LogFields) => void, bound: LogFields) {
    this.#add = add;
    this.#bound = bound;
  }

  debug(event: string, fields: LogFields = {}): void {
    this.#add('debug', event, { ...this.#bound, ...fields });
  }

  info(event: string, fields: LogFields = {}): void {
    this.#add('info', event, { ...this.#bound, ...fields });
  }

  warn(event: string, fields: LogFields = {}): void {
    this.#add('warn', event, { ...this.#bound, ...fields });
  }

  error(event: string, fields: LogFields = {}): void {
    this.#add('error', event, { ...this.#bound, ...fields });
  }

  child(fields: LogFields): Log {
    return new CallLog(this.#add, { ...this.#bound, ...fields });
  }
}

class CallFile {
  readonly log: Log;
  readonly #path: string;
  readonly #options: CallLogsOptions;
  #lines = '';
  #isFailing = false;

  constructor(path: string, level: Level, options: CallLogsOptions) {
    this.#path = path;
    this.#options = options;
    const base = { process: 'agent', pid: process.pid };
    const write = (line: string): void => {
      this.#lines += line;
    };
    this.log = wrapPino(pino({ level, base, messageKey: 'event' }, { write }));
  }

  flush(): void {
    const lines = this.#lines;
    if (lines === '') return;
    this.#lines = '';
    try {
      this.#append(lines);
      this.#isFailing = false;
    } catch (error) {
      const fields = { file: this.#path, reason: messageOf(error) };
      if (!this.#isFailing) this.#options.log.warn('agent.plugin_log.not_written', fields);
      this.#isFailing = true;
    }
  }

  #append(lines: string): void {
    const fd = openCapped(this.#path, this.#options.maxBytes ?? DEFAULT_MAX_BYTES);
    try {
      writeFileSync(fd, lines);
    } finally {
      closeSync(fd);
    }
  }
}
