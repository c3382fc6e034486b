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

/** Which file, and what of it. */
type Place = Pick<NetConfig, 'logFile' | 'logLevel'>;

interface Entry {
  readonly place: Place;
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

  /** `bound` is part of every line. Never throws, nor does what it gives. */
  open(place: Place, bound: LogFields = {}): Log {
    return new CallLog(this.#add, place, bound);
  }

  readonly #add = (entry: Entry): void => {
    if (this.#entries.length === 0) setImmediate(() => this.#flush());
    this.#entries.push(entry);
  };

  #flush(): void {
    const entries = this.#entries;
    this.#entries = [];
    const files = new Set<CallFile>();
    for (const { place, level, event, fields } of entries) {
      this.#options.log[level](event, fields);
      const file = this.#fileOf(place);
      file.log[level](event, fields);
      files.add(file);
    }
    for (const file of files) file.flush();
  }

  #fileOf({ logFile, logLevel }: Place): CallFile {
    return this.#files.getOrMake(`${logLevel} ${logFile}`, () => new CallFile(logFile, logLevel, this.#options));
  }
}

class CallLog implements Log {
  readonly #add: (entry: Entry) => void;
  readonly #place: Place;
  readonly #bound: LogFields;

  constructor(add: (entry: Entry) => void, place: Place, bound: LogFields) {
    this.#add = add;
    this.#place = place;
    this.#bound = bound;
  }

  debug(event: string, fields: LogFields = {}): void {
    this.#add({ place: this.#place, level: 'debug', event, fields: { ...this.#bound, ...fields } });
  }

  info(event: string, fields: LogFields = {}): void {
    this.#add({ place: this.#place, level: 'info', event, fields: { ...this.#bound, ...fields } });
  }

  warn(event: string, fields: LogFields = {}): void {
    this.#add({ place: this.#place, level: 'warn', event, fields: { ...this.#bound, ...fields } });
  }

  error(event: string, fields: LogFields = {}): void {
    this.#add({ place: this.#place, level: 'error', event, fields: { ...this.#bound, ...fields } });
  }

  child(fields: LogFields): Log {
    return new CallLog(this.#add, this.#place, { ...this.#bound, ...fields });
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
