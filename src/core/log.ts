// What code may say while it works. The adapter decides where it goes; nothing here ever reaches stdout.

export type LogFields = Readonly<Record<string, unknown>>;

/** `event` is a fixed dotted name (`cni.add.done`); fields hold no secret and never a whole configuration. */
export interface Log {
  debug(event: string, fields?: LogFields): void;
  info(event: string, fields?: LogFields): void;
  warn(event: string, fields?: LogFields): void;
  error(event: string, fields?: LogFields): void;
  child(fields: LogFields): Log;
}
