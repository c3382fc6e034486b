// An explanation for people: what happens, in order, a line a step; then the verdict, then what else is worth knowing.
import { onOneLine } from '../core/one-line.ts';
import type { ExplainedDial, ExplainedTarget, Explanation } from './explanation.ts';

const LABEL_WIDTH = 11;
const BYTES = { http: 'HTTP', tls: 'TLS', raw: 'raw TCP', silent: 'nothing at first' } as const;
const CAPTURE = {
  'redirect-all': 'redirect-all: every TCP connection of the pod',
  scoped: 'scoped: the mesh ports 18081 and 18082 only',
} as const;

/** Several lines, each ended. Addresses that go the same way share their lines. */
export function formatExplanation(explanation: Explanation): string {
  const { pod, destination, captureMode, bytes, authority, name, dials, verdict, notes } = explanation;
  const lines = [
    `${pod} -> ${destination}`,
    ...step('capture', CAPTURE[captureMode]),
    ...step('sends', authority === '' ? BYTES[bytes] : `${BYTES[bytes]}, Host ${authority}`),
    ...(name === '' ? [] : step('name', name)),
    ...groupAlike(dials).flatMap(formatGroup),
    `=> ${verdict}`,
    ...[...new Set(dials.map(({ hint }) => hint))].filter((hint) => hint !== '').map((hint) => `try: ${hint}`),
    ...notes.map((note) => `note: ${onOneLine(note)}`),
  ];
  return `${lines.join('\n')}\n`;
}

type Group = readonly [ExplainedDial, ...ExplainedDial[]];

// Rule and cluster hold the family or the address; all else decides whether two go the same way.
function groupAlike(dials: readonly ExplainedDial[]): readonly Group[] {
  const groups = new Map<string, [ExplainedDial, ...ExplainedDial[]]>();
  for (const dial of dials) {
    const { outcome, listener, chain, status, target, table } = dial;
    const key = JSON.stringify({ outcome, listener, chain, status, target, table });
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [dial]);
    else group.push(dial);
  }
  return [...groups.values()];
}

function formatGroup(group: Group): readonly string[] {
  const [first] = group;
  const rules = group.map(({ rule, table }) => (rule === '' ? 'no rule takes it' : `inet ${table}: ${rule}`));
  return [
    ...step('dials', group.map(formatPlace).join(', ')),
    ...step('kernel', ...rules),
    ...(first.listener === ''
      ? []
      : step('listener', `${first.listener} (${first.listenerPort}), chain ${first.chain}`)),
    ...(first.status === 0 ? [] : step('answer', `HTTP ${first.status}, by Envoy`)),
    ...(first.cluster === '' ? [] : step('cluster', [...new Set(group.map(({ cluster }) => cluster))].join(', '))),
    ...(first.target === undefined ? [] : formatTarget(first.target)),
  ];
}

function formatPlace({ address, port }: ExplainedDial): string {
  if (address === '') return `port ${port} of an address outside the mesh`;
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;
}

function formatTarget({ service, port, protocol, serverName, serverIdentities, endpoints }: ExplainedTarget) {
  const sni = serverName === '' ? 'no SNI' : `SNI ${serverName}`;
  const hop = serverIdentities.length === 0 ? 'clear text' : `mTLS, ${sni}, server ${serverIdentities.join(' or ')}`;
  const width = (texts: readonly string[]) => Math.max(...texts.map(({ length }) => length));
  const [ipWidth, podWidth] = [width(endpoints.map(({ ip }) => ip)), width(endpoints.map(({ pod }) => pod))];
  const rows = endpoints.map(
    ({ ip, pod, node, health, available }) =>
      `${ip.padEnd(ipWidth)}  ${pod.padEnd(podWidth)}  on ${node}  ${health}${available ? '' : ', not used'}`,
  );
  return [
    ...step('hop', hop),
    ...step('endpoints', ...rows),
    ...step('port', `${port} of ${service}, ${protocol === 'http' ? 'HTTP' : 'TCP'}`),
  ];
}

/** The label stands in the first line only; a text that was there already is left out. */
function step(label: string, ...texts: readonly string[]): readonly string[] {
  return [...new Set(texts)].map(
    (text, index) => `  ${(index === 0 ? label : '').padEnd(LABEL_WIDTH)}${onOneLine(text)}`,
  );
}
