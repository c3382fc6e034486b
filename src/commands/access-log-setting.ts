// `--access-log off|stdout|file:PATH|otlp:ADDR`, where ADDR is HOST:PORT or unix:PATH.
import { isAbsolute } from 'node:path';
import { parseSocketAddress } from '../core/socket-address.ts';
import type { AccessLogSink, CollectorAddress } from '../xds/input.ts';

export const ACCESS_LOG_FORMS = 'off, stdout, file:PATH, otlp:HOST:PORT or otlp:unix:PATH (absolute paths)';

const HOST_NAME = /^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\.)*[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/i;
const SUN_PATH_MAX = 107;

/** The sink, `off`, or undefined for any other text. */
export function parseAccessLog(text: string): AccessLogSink | 'off' | undefined {
  if (text === 'off') return 'off';
  if (text === 'stdout') return { kind: 'stdout' };
  const [, kind, rest = ''] = /^(file|otlp):(.*)$/s.exec(text) ?? [];
  if (kind === 'file') return isPath(rest) ? { kind, path: rest } : undefined;
  if (kind !== 'otlp') return undefined;
  const address = parseCollector(rest);
  return address === undefined ? undefined : { kind, address };
}

function parseCollector(text: string): CollectorAddress | undefined {
  if (text.startsWith('unix:')) {
    const path = text.slice('unix:'.length);
    return isPath(path) && Buffer.byteLength(path) <= SUN_PATH_MAX ? { kind: 'unix', path } : undefined;
  }
  const ip = parseSocketAddress(text);
  if (ip !== undefined) return ip.port === 0 ? undefined : { kind: 'ip', host: ip.address.text, port: ip.port };
  const [, host = '', port = ''] = /^([^:]+):([0-9]{1,5})$/.exec(text) ?? [];
  const isName = HOST_NAME.test(host) && /[a-z]/i.test(host) && host.length <= 253;
  return isName && Number(port) >= 1 && Number(port) <= 65535 ? { kind: 'name', host, port: Number(port) } : undefined;
}

function isPath(text: string): boolean {
  return isAbsolute(text) && !text.includes('\u0000');
}
