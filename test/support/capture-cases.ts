// Policies and mesh sets that the tests of planning, lowering and programming share; each is one golden file.
import { planMeshTable } from '../../src/capture/mesh-table.ts';
import { planPluginTable } from '../../src/capture/plugin-table.ts';
import type { CapturePolicy } from '../../src/capture/policy.ts';
import { type IpAddress, type IpRange, parseIp, parseIpRange } from '../../src/core/ip.ts';
import type { MeshSets } from '../../src/mesh/mesh-sets.ts';
import type { Table } from '../../src/nft/model.ts';

export function ip(text: string): IpAddress {
  const address = parseIp(text);
  if (address === undefined) throw new Error(`no address: ${text}`);
  return address;
}

export function cidr(text: string): IpRange {
  const range = parseIpRange(text);
  if (range === undefined) throw new Error(`no range: ${text}`);
  return range;
}

export const SCOPED: CapturePolicy = { redirectAll: false, excludePorts: [], excludeRanges: [] };
export const REDIRECT_ALL: CapturePolicy = { ...SCOPED, redirectAll: true };
export const EXCLUDING: CapturePolicy = {
  ...REDIRECT_ALL,
  excludePorts: [
    { first: 22, last: 22 },
    { first: 8000, last: 8100 },
    { first: 65000, last: 65535 },
  ],
  excludeRanges: ['10.1.0.0/16', '10.3.0.1', '192.168.0.0/17', '255.0.0.0/8', 'fd00::/9', 'fdff::7', 'ff00::/8'].map(
    cidr,
  ),
};

export const MESH: MeshSets = {
  tcp: [
    { address: ip('10.96.0.50'), port: 9000 },
    { address: ip('10.96.0.50'), port: 18082 },
    { address: ip('10.96.0.51'), port: 5432 },
    { address: ip('10.96.0.51'), port: 18082 },
    { address: ip('fd96::50'), port: 9000 },
    { address: ip('fd96::50'), port: 18082 },
    { address: ip('fd96::51'), port: 18082 },
  ],
  vip: ['10.96.0.50', '10.96.0.51', '10.96.0.52', 'fd96::50', 'fd96::51', 'fd96::52'].map(ip),
  shim: ['10.96.0.51', 'fd96::51'].map(ip),
};

/** Name of the golden file -> table. */
export const TABLES: Readonly<Record<string, Table>> = {
  'plugin-scoped': planPluginTable(SCOPED),
  'plugin-redirect-all': planPluginTable(REDIRECT_ALL),
  'plugin-dns4': planPluginTable({ ...SCOPED, dns: { address: ip('192.0.2.1'), port: 18054 } }),
  'plugin-dns6-redirect-all': planPluginTable({ ...REDIRECT_ALL, dns: { address: ip('fd00::53'), port: 18054 } }),
  'plugin-exclusions': planPluginTable(EXCLUDING),
  'mesh-scoped': planMeshTable(SCOPED, MESH),
  'mesh-redirect-all': planMeshTable(REDIRECT_ALL, MESH),
  'mesh-unanswered': planMeshTable(REDIRECT_ALL, MESH, { unanswered: ['10.254.0.0/16', 'fd0a:e7e0::/112'].map(cidr) }),
  'mesh-exclusions': planMeshTable({ ...EXCLUDING, redirectAll: false }, MESH),
};
