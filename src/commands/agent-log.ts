// The agent's log: JSON lines on stderr, written at once, so that the last line before a crash is there.
import { destination, pino } from 'pino';
import { wrapPino } from '../adapters/log/wrap-pino.ts';
import type { Log } from '../core/log.ts';

export function createAgentLog(level: 'debug' | 'info' | 'warn' | 'error'): Log {
  return wrapPino(pino({ level, base: { process: 'agent' }, messageKey: 'event' }, destination({ fd: 2, sync: true })));
}
