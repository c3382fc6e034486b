// The operator's fixed addresses: `{"services": {"demo/shop": ["10.96.0.50", "fd96::50"]}}`. It only pins addresses; the
// ports of a service come from its endpoints.
import { messageOf } from '../core/errors.ts';
import { isDnsLabel } from '../core/identifiers.ts';
import { compareIps, type IpAddress, type IpRange, isInRange, parseIp, parseIpRange } from '../core/ip.ts';
import { type Parsed, ProblemList, quoteValue } from '../core/problems.ts';
import { parseServiceKey } from '../mesh/names.ts';

/** Service key (`<ns>/<sa>`) -> its addresses, sorted; no address belongs to two services. */
export type VipPins = ReadonlyMap<string, readonly IpAddress[]>;

/** Where no service can be: unspecified, loopback, link-local, multicast and above. */
const NEVER: readonly IpRange[] = [
  '0.0.0.0/8',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '224.0.0.0/3',
  '::/127',
  'fe80::/10',
  'ff00::/8',
]
  .map(parseIpRange)
  .filter((range) => range !== undefined);

/** Reads the file's text. All problems are collected. */
export function parseVipPins(text: string): Parsed<VipPins> {
  const list = new ProblemList();
  let root: unknown;
  try {
    root = JSON.parse(text);
  } catch (error) {
    list.add('', `must be JSON: ${messageOf(error)}`);
    return list.finish(() => new Map());
  }
  const pins = new Map<string, readonly IpAddress[]>();
  const owners = new Map<string, string>();
  if (!isObject(root)) list.add('', `must be an object, got ${quoteValue(root)}`);
  else {
    for (const key of Object.keys(root))
      if (key !== 'services') list.add(key, 'unknown key; the only one is "services"');
    const services = root['services'];
    if (!isObject(services)) list.add('services', `must be an object, got ${quoteValue(services)}`);
    else
      for (const [name, value] of Object.entries(services)) pins.set(name, parseService(name, value, { list, owners }));
  }
  return list.finish(() => pins);
}

interface Context {
  readonly list: ProblemList;
  /** Address -> the service that named it first. */
  readonly owners: Map<string, string>;
}

function parseService(name: string, value: unknown, { list, owners }: Context): readonly IpAddress[] {
  const path = `services[${JSON.stringify(name)}]`;
  const key = parseServiceKey(name);
  if (key === undefined || !isDnsLabel(key.namespace) || !isDnsLabel(key.serviceAccount)) {
    list.add(path, 'the key must be "<namespace>/<service account>", both DNS labels');
  }
  if (!Array.isArray(value) || value.length === 0) {
    list.add(path, `must be a list of at least one address, got ${quoteValue(value)}`);
    return [];
  }
  const addresses: IpAddress[] = [];
  for (const [index, item] of value.entries()) {
    const address = typeof item === 'string' ? parseIp(item) : undefined;
    const owner = address === undefined ? undefined : owners.get(address.text);
    if (address === undefined) list.add(`${path}[${index}]`, `must be an IP address, got ${quoteValue(item)}`);
    else if (NEVER.some((range) => isInRange(address, range))) {
      list.add(`${path}[${index}]`, `must be an address that a service can have, got ${quoteValue(item)}`);
    } else if (owner !== undefined) {
      list.add(`${path}[${index}]`, `${address.text} is fixed already for ${quoteValue(owner)}`);
    } else {
      owners.set(address.text, name);
      addresses.push(address);
    }
  }
  return addresses.sort(compareIps);
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
