// The agent's log: JSON lines on stderr, written at once, so that the last line before a crash is there.
import { destination, type Logger, pino } from 'pino';
import type { Log, LogFields } from '../core/log.ts';

export function createAgentLog(level: 'debug' | 'info' | 'warn' | 'error'): Log {
  return wrap(pino({ level, base: { process: 'agent' }, messageKey: 'event' }, destination({ fd: 2, sync: true })));
}

function wrap(logger: Logger): Log {
  const at =
    (level: 'debug' | 'info' | 'warn' | 'error') =>
    (event: string, fields: LogFields = {}): void =>
      logger[level]({ ...fields }, event);
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    child: (fields) => wrap(logger.child({ ...fields })),
  };
}
