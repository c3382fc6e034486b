// A log that keeps what it was told, for tests that look at it.
import type { Log, LogFields } from '../../src/core/log.ts';

export interface LogEntry {
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  readonly event: string;
  readonly fields: LogFields;
}

export class RecordingLog implements Log {
  readonly entries: LogEntry[];
  readonly #fields: LogFields;

  constructor(fields: LogFields = {}, entries: LogEntry[] = []) {
    this.#fields = fields;
    this.entries = entries;
  }

  debug(event: string, fields?: LogFields): void {
    this.#add('debug', event, fields);
  }
  info(event: string, fields?: LogFields): void {
    this.#add('info', event, fields);
  }
  warn(event: string, fields?: LogFields): void {
    this.#add('warn', event, fields);
  }
  error(event: string, fields?: LogFields): void {
    this.#add('error', event, fields);
  }
  child(fields: LogFields): Log {
    return new RecordingLog({ ...this.#fields, ...fields }, this.entries);
  }

  /** Whether an event was logged whose fields, as JSON, match. */
  has(event: string, fields: RegExp = /./): boolean {
    return this.entries.some((entry) => entry.event === event && fields.test(JSON.stringify(entry.fields)));
  }

  #add(level: LogEntry['level'], event: string, fields: LogFields = {}): void {
    this.entries.push({ level, event, fields: { ...this.#fields, ...fields } });
  }
}
