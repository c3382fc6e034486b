// What somebody asks about: a destination as a client writes it. The forms, and what a client then sends.
import { type IpAddress, parseIp } from '../core/ip.ts';

/**
 * `host`: as written, an IPv6 address without brackets; `address`: where it is one. `authority`: of `http`, the Host that a
 * client sends, without the scheme's own port.
 */
export interface Destination {
  readonly kind: 'http' | 'https' | 'tcp';
  readonly host: string;
  readonly address?: IpAddress;
  readonly port: number;
  readonly authority?: string;
}

/** The forms that parseDestination takes, for people. */
export const DESTINATION_FORMS = 'http://name[:port]/, https://name[:port]/, name:port or ip:port';

const SCHEME_PORTS = { http: 80, https: 443 } as const;
const LABEL = /^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$/i;

/** Reads a destination, or says what is wrong with it. */
export function parseDestination(text: string): Destination | { readonly problem: string } {
  const url = /^([a-z][a-z0-9+.-]*):\/\/([^/?#]*)/i.exec(text);
  if (url === null) return parseTcp(text);
  const scheme = url[1]?.toLowerCase();
  if (scheme !== 'http' && scheme !== 'https') return { problem: `unknown scheme "${url[1]}"` };
  return parseUrl(scheme, url[2] ?? '');
}

function parseUrl(kind: 'http' | 'https', authority: string): Destination | { readonly problem: string } {
  if (authority.includes('@')) return { problem: 'a user name has no place in it' };
  const own = SCHEME_PORTS[kind];
  const place = parsePlace(authority, own);
  if ('problem' in place || kind === 'https') return 'problem' in place ? place : { kind, ...place };
  // Clients leave the scheme's own port out.
  return { kind, ...place, authority: place.port === own ? authority.replace(/:[0-9]+$/, '') : authority };
}

function parseTcp(text: string): Destination | { readonly problem: string } {
  const place = parsePlace(text);
  return 'problem' in place ? place : { kind: 'tcp', ...place };
}

type Place = Pick<Destination, 'host' | 'address' | 'port'>;

function parsePlace(text: string, defaultPort?: number): Place | { readonly problem: string } {
  if (!text.startsWith('[') && text.split(':').length > 2) {
    return { problem: 'an IPv6 address needs brackets: [fd00::1]:9000' };
  }
  const match = /^(?:\[([^\]]*)\]|([^:[\]]*))(?::(.*))?$/s.exec(text);
  if (match === null) return { problem: 'it is neither a name nor an address' };
  const [, bracketed, bare, portText] = match;
  const host = bracketed ?? bare ?? '';
  const address = parseIp(host);
  if (bracketed !== undefined && !host.includes(':')) return { problem: 'brackets are for IPv6 addresses' };
  if (address === undefined && (bracketed !== undefined || !isHostName(host))) {
    return { problem: host === '' ? 'the name is missing' : `"${host}" is neither a name nor an address` };
  }
  const port = portText === undefined ? defaultPort : parsePort(portText);
  if (port === undefined) {
    const missing = 'it names no port; raw TCP needs one, and HTTP is written http://name/';
    return {
      problem: portText === undefined ? missing : `the port must be a number from 1 to 65535, not "${portText}"`,
    };
  }
  return { host, port, ...(address === undefined ? {} : { address }) };
}

function parsePort(text: string): number | undefined {
  const port = /^[0-9]{1,5}$/.test(text) ? Number(text) : 0;
  return port >= 1 && port <= 65_535 ? port : undefined;
}

function isHostName(host: string): boolean {
  const labels = host.replace(/\.$/, '').split('.');
  return host.length <= 254 && labels.every((label) => LABEL.test(label));
}
