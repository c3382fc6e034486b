// Our log interface around a pino logger.
import type { Logger } from 'pino';
import type { Log, LogFields } from '../../core/log.ts';

/** The event becomes pino's message; children share the destination. */
export function wrapPino(logger: Logger): Log {
  const at =
    (level: 'debug' | 'info' | 'warn' | 'error') =>
    (event: string, fields: LogFields = {}): void =>
      logger[level]({ ...fields }, event);
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    child: (fields) => wrapPino(logger.child({ ...fields })),
  };
}
