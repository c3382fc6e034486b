// Bad configurations, generated: every key of the plugin with every type that it is not, every value that it cannot have,
// and given twice.

/** `good`: by JSON type, a value that is fine. `bad`: of a right type, but nothing that the key can be; `path` where it is not the key's. */
export interface KeySpec {
  readonly good: Readonly<Partial<Record<JsonType, unknown>>>;
  readonly bad?: readonly { readonly value: unknown; readonly path?: string }[];
}

type JsonType = 'string' | 'number' | 'boolean' | 'object' | 'array';

const SAMPLES: Readonly<Record<JsonType, unknown>> = {
  string: 'text',
  number: 7,
  boolean: true,
  object: { a: 1 },
  array: [1],
};

const relative = { value: 'relative/path' };
const withNul = { value: '/a\u0000b' };
const longSocket = { value: `/${'s'.repeat(107)}` };
const longPath = { value: `/${'p'.repeat(4095)}` };
const item = (key: string, value: unknown, index = 0) => ({ value, path: `${key}[${index}]` });
const notIntegers = [-1, 0, 1.5, 1e9, 1e300].map((value) => ({ value }));
const notPorts = ['0', '70000', '-1', '8100-8000', '80-', 'http', '18081x', '1e3'];
const notRanges = ['10.0.0.0/33', '300.1.2.3', 'fd00::/129', 'example.com', '10.0.0.0/-1', '1.2.3'];

/** What a runtime or a user can write, by key. */
export const KEYS: Readonly<Record<string, KeySpec>> = {
  cniVersion: { good: { string: '1.1.0' } },
  name: { good: { string: 'net' }, bad: ['', '../x', 'a b', 'é'].map((value) => ({ value })) },
  agent_cni_path: { good: { string: '/x.sock' }, bad: [relative, withNul, longSocket] },
  admin_socket: { good: { string: '/x.sock' }, bad: [relative, withNul, longSocket] },
  agent_timeout_ms: { good: { number: 5000 }, bad: notIntegers },
  proxy_ready: { good: { string: 'wait' }, bad: [{ value: 'maybe' }, { value: 'WAIT' }] },
  readiness_probe_disabled: { good: { boolean: true } },
  netns_pin_disabled: { good: { boolean: true } },
  netns_pin_dir: { good: { string: '/pins' }, bad: [relative, withNul, longPath] },
  netns_unpin_delay_seconds: { good: { number: 0 }, bad: [{ value: 0.5 }, { value: 1e12 }, { value: -1e12 }] },
  delete_queue_dir: { good: { string: '/queue' }, bad: [relative, withNul, longPath] },
  capture_redirect_all_default: { good: { boolean: true } },
  mesh_dns_enabled: { good: { boolean: false } },
  host_ip: { good: { string: '192.0.2.1' }, bad: ['node-1', '1.2.3', '::g', '1.2.3.4/24'].map((value) => ({ value })) },
  cri_socket: { good: { string: '/x' } },
  otlp_endpoint: { good: { string: 'x' } },
  log_level: { good: { string: 'info' }, bad: [{ value: 'loud' }, { value: 'INFO' }] },
  log_file: {
    good: { string: '/log' },
    bad: [relative, withNul, longPath, ...['/dev/stdout', '/proc/self/fd/1', '//dev/fd/1'].map((value) => ({ value }))],
  },
  excluded_namespaces: {
    good: { array: ['kube-system'] },
    bad: [[1], [''], [null], [['x']]].map((value) => ({ value, path: 'excluded_namespaces[0]' })),
  },
  exclude_outbound_ports: {
    good: { string: '80', array: [80] },
    bad: [
      ...notPorts.map((value) => item('exclude_outbound_ports', value)),
      item('exclude_outbound_ports', [80, true], 1),
      item('exclude_outbound_ports', '80,0', 1),
    ],
  },
  exclude_outbound_ip_ranges: {
    good: { string: '10.0.0.0/8', array: ['10.0.0.0/8'] },
    bad: [
      ...notRanges.map((value) => item('exclude_outbound_ip_ranges', value)),
      item('exclude_outbound_ip_ranges', [{}]),
    ],
  },
  agent_pod: {
    good: { object: { namespace: 'a', name_prefix: 'b' } },
    bad: [
      { value: { namespace: 1 }, path: 'agent_pod.namespace' },
      { value: { name_prefix: [] }, path: 'agent_pod.name_prefix' },
    ],
  },
  runtimeConfig: {
    good: { object: {} },
    bad: [
      { value: { 'io.kubernetes.cri.pod-annotations': [] }, path: 'runtimeConfig.io.kubernetes.cri.pod-annotations' },
      {
        value: { 'io.kubernetes.cri.pod-annotations': { a: 1 } },
        path: 'runtimeConfig.io.kubernetes.cri.pod-annotations.a',
      },
    ],
  },
  prevResult: {
    good: { object: { cniVersion: '1.1.0', ips: [] } },
    bad: [
      { value: { ips: [{ address: 'x' }] }, path: 'prevResult.ips[0].address' },
      { value: { ips: [{}] }, path: 'prevResult.ips[0].address' },
      { value: { cniVersion: '9.9.9' }, path: 'prevResult.cniVersion' },
      { value: { cniVersion: 1 }, path: 'prevResult.cniVersion' },
    ],
  },
  'cni.dev/valid-attachments': {
    good: { array: [{ containerID: 'a', ifname: 'eth0' }] },
    bad: [
      item('cni.dev/valid-attachments', ['a']),
      { value: [{ containerID: '../x' }], path: 'cni.dev/valid-attachments[0].containerID' },
      { value: [{}], path: 'cni.dev/valid-attachments[0].containerID' },
    ],
  },
};

/** One spoilt configuration: what is said of it must name `path`. */
export interface BadConfig {
  readonly what: string;
  readonly key: string;
  readonly value: unknown;
  readonly path: string;
}

/** All wrong types and all bad values of a key. */
export function badConfigsOf(key: string): readonly BadConfig[] {
  const spec = KEYS[key];
  if (spec === undefined) return [];
  const wrongTypes = Object.entries(SAMPLES)
    .filter(([type]) => !(type in spec.good))
    .map(([type, value]) => ({ what: `as ${type}`, key, value, path: key }));
  const badValues = (spec.bad ?? []).map(({ value, path = key }) => ({
    what: `as ${(JSON.stringify(value) ?? '').slice(0, 40)}`,
    ...{ key, value, path },
  }));
  return [...wrongTypes, ...badValues];
}

/** The text of an object with the key in it twice, both times with a good value. */
export function withDuplicate(config: Readonly<Record<string, unknown>>, key: string): string {
  const value = JSON.stringify(config[key] ?? Object.values(KEYS[key]?.good ?? {})[0] ?? null);
  const text = JSON.stringify({ ...config, [key]: JSON.parse(value) as unknown });
  return `{${JSON.stringify(key)}:${value},${text.slice(1)}`;
}
