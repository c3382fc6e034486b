// prevResult as our answer: byte for byte where the versions agree, edited only where the format differs (K006, K008, K011).
import fc from 'fast-check';
import t from 'tap';
import { type JsonObject, parseJson } from '../../src/cni/json.ts';
import { formatResult, type PrevResult, parsePrevResult } from '../../src/cni/result.ts';
import { type CniVersion, SUPPORTED_VERSIONS } from '../../src/cni/versions.ts';

function objectOf(text: string): JsonObject {
  const node = parseJson(text, 'x');
  if (node.kind !== 'object') throw new Error('not an object');
  return node;
}

function parse(text: string): PrevResult {
  const parsed = parsePrevResult(text, objectOf(text));
  if (parsed.kind === 'problems') throw new Error(JSON.stringify(parsed.problems));
  return parsed.value;
}

const IS_OLD: ReadonlySet<string> = new Set(['0.3.0', '0.3.1', '0.4.0']);

// A result as plugins of that version write it, with unknown keys, odd blanks and numbers that no double can hold.
function sampleOf(version: CniVersion): string {
  const family = (digit: string) => (IS_OLD.has(version) ? `"version": "${digit}" ,` : '');
  const recent = version === '1.1.0' ? ',"mtu":1500,"socketPath":"/s","pciID":"0000:00"' : '';
  const route = version === '1.1.0' ? '"mtu":9000,"advmss":1,"priority":2,"table":3,"scope":4,' : '';
  return `{ "cniVersion" :"${version}",
  "interfaces":[{"name":"eth0","mac":"0a:00:00:00:00:01","sandbox":"/n/1"${recent},"x-if":{"a":[ ]}},{"name":"br0"}],
  "ips":[{${family('4')}"interface":0,"address":"10.1.2.3/24","gateway":"10.1.2.1"},
         {${family('6')}"address":"fd00::0003/64","x":1.10e+400}],
  "routes":[{${route}"dst":"0.0.0.0/0"}], "dns":{"nameservers":["10.0.0.1"],"x":"\\u003c"},
  "vendor":{"big":12345678901234567890,"exact":1.0, "nothing":null}}`;
}

t.test('formatResult() hands on the very bytes where the versions agree', async (t) => {
  for (const version of SUPPORTED_VERSIONS) t.equal(formatResult(parse(sampleOf(version)), version), sampleOf(version));
});

t.test('formatResult() slices prevResult out of its document', async (t) => {
  const text = `{"name":"n","prevResult": ${sampleOf('1.0.0')} ,"type":"x"}`;
  const node = objectOf(text).members[1]?.value;
  if (node?.kind !== 'object') throw new Error('not an object');
  const parsed = parsePrevResult(text, node);
  if (parsed.kind === 'problems') throw new Error('problems');
  t.equal(formatResult(parsed.value, '1.0.0'), sampleOf('1.0.0'));
});

for (const from of SUPPORTED_VERSIONS) {
  for (const to of SUPPORTED_VERSIONS) {
    t.test(`formatResult() converts ${from} to ${to}`, async (t) => {
      const text = formatResult(parse(sampleOf(from)), to);
      const result = JSON.parse(text);
      t.equal(result.cniVersion, to);
      t.same(
        result.ips.map((ip: { version?: string }) => ip.version),
        IS_OLD.has(to) ? ['4', '6'] : [undefined, undefined],
      );
      const keepsNew = from === '1.1.0' && to === '1.1.0';
      t.equal('mtu' in result.interfaces[0], keepsNew);
      t.same(
        Object.keys(result.routes[0]),
        keepsNew ? ['mtu', 'advmss', 'priority', 'table', 'scope', 'dst'] : ['dst'],
      );
      // What no version knows stays, digit for digit.
      for (const kept of [
        '"vendor":{"big":12345678901234567890,"exact":1.0, "nothing":null}',
        '"x":1.10e+400',
        '\\u003c',
      ]) {
        t.ok(text.includes(kept), kept);
      }
      t.same(result.interfaces[0]['x-if'], { a: [] });
      t.equal(result.ips[0].interface, 0);
    });
  }
}

const EDITS = [
  { name: 'a member alone', from: '{"version":"4"}', to: '{}' },
  { name: 'the first', from: '{"version":"4","a":1}', to: '{"a":1}' },
  { name: 'the last', from: '{"a":1 , "version":"4" }', to: '{"a":1 }' },
  { name: 'one in the middle', from: '{"a":1,"version":"4","b":2}', to: '{"a":1,"b":2}' },
  { name: 'one given twice', from: '{"version":"4","a":1,"version":"6"}', to: '{"a":1}' },
];
for (const { name, from, to } of EDITS) {
  t.test(`formatResult() removes ${name}`, async (t) => {
    const ip = (body: string) => body.replace('{', '{"address":"10.0.0.1/8",').replace(',}', '}');
    const text = `{"cniVersion":"0.4.0","ips":[${ip(from)}]}`;
    t.equal(formatResult(parse(text), '1.0.0'), `{"cniVersion":"1.0.0","ips":[${ip(to)}]}`);
  });
}

t.test('formatResult() names the version where the result does not', async (t) => {
  t.equal(formatResult(parse('{"ips":[]}'), '1.0.0'), '{"cniVersion":"1.0.0","ips":[]}');
  t.equal(formatResult(parse('{"cniVersion":null,"a":1}'), '1.0.0'), '{"cniVersion":"1.0.0","a":1}');
  t.equal(formatResult(parse('{"cniVersion":""}'), '0.4.0'), '{"cniVersion":"0.4.0"}');
});

t.test('formatResult() always gives JSON of the same content', async (t) => {
  const member = fc.dictionary(fc.constantFrom('version', 'address2', 'mtu', 'x', 'y'), fc.jsonValue({ maxDepth: 1 }));
  const arbitrary = fc.record({ interfaces: fc.array(member), routes: fc.array(member) });
  fc.assert(
    fc.property(arbitrary, fc.constantFrom(undefined, 1), (value, indent) => {
      const text = JSON.stringify({ cniVersion: '1.1.0', ...value }, null, indent);
      const expected = JSON.parse(text);
      expected.cniVersion = '1.0.0';
      for (const entry of [...expected.interfaces, ...expected.routes]) delete entry.mtu;
      t.same(JSON.parse(formatResult(parse(text), '1.0.0')), expected);
    }),
  );
});

t.test('parsePrevResult() lists all addresses', async (t) => {
  t.same(parse(sampleOf('1.0.0')).ips, ['10.1.2.3', 'fd00::3']);
  t.same(parse('{"interfaces":[{"name":"eth0"}]}').ips, [], 'K009: a result may have none');
  t.same(parse('{"ips":[{"address":"fe80::1/64"},{"address":"::ffff:10.0.0.1/128"}]}').ips, ['fe80::1', '10.0.0.1']);
});

const BAD = [
  ['{"ips":[{"address":"x/24"}]}', 'prevResult.ips[0].address'],
  ['{"ips":[{"address":"10.0.0.1/24"},{}]}', 'prevResult.ips[1].address'],
  ['{"ips":["10.0.0.1/24"]}', 'prevResult.ips[0].address'],
  ['{"cniVersion":"0.2.0"}', 'prevResult.cniVersion'],
  ['{"cniVersion":1}', 'prevResult.cniVersion'],
] as const;
for (const [text, path] of BAD) {
  t.test(`parsePrevResult() rejects ${text}`, async (t) => {
    t.match(parsePrevResult(text, objectOf(text)), { kind: 'problems', problems: [{ path }] });
  });
}
