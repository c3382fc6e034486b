// The grammar of a pod's port annotations, the proposal's example among the cases: each with all its ports, its warnings or
// its problems.
import fc from 'fast-check';
import t from 'tap';
import { formatProblems } from '../../src/core/problems.ts';
import { RESERVED_TCP_PORTS } from '../../src/mesh/constants.ts';
import { findProtocol, hasTcpSuffix, listProtocols, parseWorkloadPorts } from '../../src/mesh/port-protocols.ts';

const PORT = 'endpoint.aether.io/port';
const PORTS = 'endpoint.aether.io/ports';
const PROTOCOL = 'endpoint.aether.io/protocol';

/** `8080! 9000=tcp`: ports in order, the primary marked. */
function show(annotations: Record<string, string>): string {
  const parsed = parseWorkloadPorts(annotations);
  if (parsed.kind === 'problems') return `error: ${formatProblems(parsed.problems)}`;
  const ports = parsed.value.served.map((entry) => {
    const kind = entry.protocol === 'tcp' ? 'tcp' : entry.codec;
    return `${entry.port}${entry.port === parsed.value.primary ? '!' : ''}=${kind}`;
  });
  const warnings = parsed.warnings.length > 0 ? ` warn: ${formatProblems(parsed.warnings)}` : '';
  return `${ports.join(' ')}${warnings}`;
}

t.test('parseWorkloadPorts() reads', (t) => {
  const cases: readonly [string, Record<string, string>, string][] = [
    ['nothing', {}, '8080!=h1'],
    ['the primary alone', { [PORT]: '9090' }, '9090!=h1'],
    ['a blank around the primary', { [PORT]: ' 9090 ' }, '9090!=h1'],
    ['an empty list', { [PORTS]: '' }, '8080!=h1'],
    ['empty items', { [PORTS]: ',8080,,9090,' }, '8080!=h1 9090=h1'],
    [
      'the proposal example',
      { [PORT]: '8080', [PORTS]: '8080,9090=h2,9000=tcp,5432=tcp' },
      '5432=tcp 8080!=h1 9000=tcp 9090=h2',
    ],
    ['every suffix', { [PORT]: '1', [PORTS]: '1=h1,2=h2,3=http2,4=grpc,5=tcp' }, '1!=h1 2=h2 3=h2 4=h2 5=tcp'],
    ['suffixes in any case, blanks around', { [PORTS]: ' 8080 = H2 , 9000 =TCP' }, '8080!=h2 9000=tcp'],
    ['the pod protocol as default', { [PORT]: '5432', [PROTOCOL]: 'tcp' }, '5432!=tcp'],
    [
      'a TCP primary with an HTTP port',
      { [PORT]: '9000', [PROTOCOL]: 'tcp', [PORTS]: '9000,8080=h1' },
      '8080=h1 9000!=tcp',
    ],
    [
      'the primary added with the pod protocol',
      { [PORT]: '7000', [PROTOCOL]: 'tcp', [PORTS]: '8080=h1' },
      '7000!=tcp 8080=h1',
    ],
    ['the primary typed in the list', { [PORT]: '9000', [PORTS]: '9000=tcp' }, '9000!=tcp'],
    ['a port twice in one class', { [PORTS]: '8080,9000=tcp,9000=tcp,8080=h1' }, '8080!=h1 9000=tcp'],
    ['h2 and grpc as one class', { [PORTS]: '9090=h2,9090=grpc' }, '8080!=h1 9090=h2'],
    ['an explicit http protocol', { [PROTOCOL]: 'http' }, '8080!=h1'],
    ['an empty protocol', { [PROTOCOL]: '' }, '8080!=h1'],
    ['the highest port', { [PORT]: '65535' }, '65535!=h1'],
    [
      '80=tcp with a warning',
      { [PORTS]: '80=tcp' },
      `80=tcp 8080!=h1 warn: ${PORTS}[0]: port 80 typed tcp takes the http:// spelling of this service as raw bytes`,
    ],
    [
      'HTTP on ports of the mesh with a warning each',
      { [PORTS]: '18001,18082=h2' },
      `8080!=h1 18001=h1 18082=h2 warn: ${PORTS}[0]: port 18001 is the mesh's own: Envoy listens there in every pod, so one of it and the application cannot; ${PORTS}[1]: port 18082 is the mesh's own: no client can spell it, as it means the TCP port of a service`,
    ],
  ];
  for (const [name, annotations, want] of cases) t.equal(show(annotations), want, name);
  t.end();
});

t.test('parseWorkloadPorts() warns of HTTP on each port of the mesh, and on its primary', (t) => {
  for (const port of [18001, 18002, 18003, 18004, 18008, 18081, 18082]) {
    t.match(show({ [PORTS]: String(port) }), / warn: /, String(port));
    t.match(show({ [PORT]: String(port) }), / warn: /, `primary ${port}`);
  }
  t.end();
});

t.test('hasTcpSuffix() sees the suffix, not the protocol of the pod', (t) => {
  for (const ports of ['9000=tcp', '8080, 9000 = TCP ,80=h2']) t.ok(hasTcpSuffix({ [PORTS]: ports }), ports);
  for (const ports of ['', '9000', '9000=h2', '9000=tcpx'])
    t.notOk(hasTcpSuffix({ [PORTS]: ports, [PROTOCOL]: 'tcp' }), ports);
  t.end();
});

t.test('parseWorkloadPorts() rejects', (t) => {
  const range = 'must be a port from 1 to 65535, got';
  const known = 'use one of h1, h2, http2, grpc, tcp';
  const cases: readonly [string, Record<string, string>, string][] = [
    ['a word', { [PORTS]: 'http' }, `${PORTS}[0]: ${range} "http"`],
    ['zero', { [PORTS]: '0' }, `${PORTS}[0]: ${range} "0"`],
    ['65536', { [PORTS]: '65536' }, `${PORTS}[0]: ${range} "65536"`],
    ['a sign', { [PORTS]: '+80,-1' }, `${PORTS}[0]: ${range} "+80"; ${PORTS}[1]: ${range} "-1"`],
    ['a fraction and hex', { [PORTS]: '80.0,0x50' }, `${PORTS}[0]: ${range} "80.0"; ${PORTS}[1]: ${range} "0x50"`],
    ['an empty suffix', { [PORTS]: '8080=' }, `${PORTS}[0]: the suffix after "=" is empty; ${known}`],
    ['an unknown suffix', { [PORTS]: '9000=udp' }, `${PORTS}[0]: unknown suffix "udp"; ${known}`],
    ['two suffixes', { [PORTS]: '9000=tcp=h2' }, `${PORTS}[0]: unknown suffix "tcp=h2"; ${known}`],
    ['a suffix without port', { [PORTS]: '=tcp' }, `${PORTS}[0]: ${range} ""`],
    [
      'one port in two classes',
      { [PORTS]: '9000=tcp,9000=h2' },
      `${PORTS}[1]: port 9000 is listed twice, as tcp and as h2; give it one protocol`,
    ],
    [
      'h1 by default against h2',
      { [PORTS]: '8080,8080=h2' },
      `${PORTS}[1]: port 8080 is listed twice, as h1 and as h2; give it one protocol`,
    ],
    ['an empty primary', { [PORT]: '' }, `${PORT}: ${range} ""`],
    ['a primary of zero', { [PORT]: '0' }, `${PORT}: ${range} "0"`],
    ['an unknown protocol', { [PROTOCOL]: 'TCP' }, `${PROTOCOL}: must be "http" or "tcp", got "TCP"`],
    [
      'a reserved primary',
      { [PORT]: '18082', [PROTOCOL]: 'tcp' },
      `${PORT}: port 18082 is reserved by the mesh and cannot be typed tcp`,
    ],
    [
      'everything at once',
      { [PORT]: 'x', [PROTOCOL]: 'udp', [PORTS]: '0,1=q' },
      `${PROTOCOL}: must be "http" or "tcp", got "udp"; ${PORT}: ${range} "x"; ${PORTS}[0]: ${range} "0"; ${PORTS}[1]: unknown suffix "q"; ${known}`,
    ],
  ];
  for (const [name, annotations, want] of cases) t.equal(show(annotations), `error: ${want}`, name);
  for (const port of RESERVED_TCP_PORTS) {
    t.match(show({ [PORTS]: `${port}=tcp` }), /reserved by the mesh/, `${port}=tcp`);
  }
  t.end();
});

t.test('parseWorkloadPorts() never throws, and every served port is typed', (t) => {
  const text = fc.oneof(fc.string(), fc.stringMatching(/^[0-9=,htpc12 ]{0,30}$/));
  fc.assert(
    fc.property(text, text, fc.constantFrom('', 'http', 'tcp', 'x'), (port, ports, protocol) => {
      const parsed = parseWorkloadPorts({ [PORT]: port, [PORTS]: ports, [PROTOCOL]: protocol });
      if (parsed.kind === 'problems') return parsed.problems.length > 0;
      const { primary, served } = parsed.value;
      const ascending = served.every((entry, i) => i === 0 || entry.port > (served[i - 1]?.port ?? 0));
      return ascending && findProtocol(parsed.value, primary) !== undefined && listProtocols(parsed.value).length > 0;
    }),
  );
  t.end();
});

t.test('listProtocols() puts HTTP first', (t) => {
  const parsed = parseWorkloadPorts({ [PORT]: '9000', [PROTOCOL]: 'tcp', [PORTS]: '8080=h1' });
  t.same(parsed.kind === 'value' && listProtocols(parsed.value), ['http', 'tcp']);
  t.end();
});

t.test('parseWorkloadPorts() reads the same annotations alike, however many others came between', (t) => {
  const texts = ['', '80', '8080,9000=tcp', '9000=tcp,8080', 'x', '80=', '18081=tcp'];
  const all = texts.flatMap((ports) =>
    [undefined, 'tcp', 'x'].flatMap((protocol) =>
      [undefined, '80', '9000'].map((port) => ({
        [PORTS]: ports,
        ...(protocol === undefined ? {} : { [PROTOCOL]: protocol }),
        ...(port === undefined ? {} : { [PORT]: port }),
      })),
    ),
  );
  const first = all.map((annotations) => parseWorkloadPorts(annotations));
  t.ok(new Set(first.map((parsed) => JSON.stringify(parsed))).size > 15, 'they differ');
  t.strictSame(
    all.map((annotations) => parseWorkloadPorts(annotations)),
    first,
  );
  const [one] = all.slice(-1);
  t.equal(parseWorkloadPorts(one ?? {}), parseWorkloadPorts({ ...one, other: 'x' }), 'and are kept');
  t.end();
});
