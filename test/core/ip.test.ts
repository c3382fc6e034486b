// Addresses and ranges. Random text is an address exactly where node:net says so, a zone excepted.
import { isIP } from 'node:net';
import fc from 'fast-check';
import t from 'tap';
import {
  canonicalIp,
  compareIps,
  ipFromBytes,
  isInRange,
  parseIp,
  parseIpRange,
  rangeBounds,
} from '../../src/core/ip.ts';

t.test('parseIp() gives canonical text', (t) => {
  const cases: readonly [string, string | undefined][] = [
    ['10.1.2.3', '10.1.2.3'],
    ['0.0.0.0', '0.0.0.0'],
    ['::', '::'],
    ['::1', '::1'],
    ['FD96::50', 'fd96::50'],
    ['fd96:0:0:0:0:0:0:50', 'fd96::50'],
    ['2001:db8:0:0:1:0:0:1', '2001:db8::1:0:0:1'],
    ['2001:db8:0:1:1:1:1:1', '2001:db8:0:1:1:1:1:1'],
    ['0:0:0:1::', '0:0:0:1::'],
    ['1:2:3:4:5:6:7:8', '1:2:3:4:5:6:7:8'],
    ['::ffff:10.1.2.3', '10.1.2.3'],
    ['64:ff9b::10.1.2.3', '64:ff9b::a01:203'],
    ['fe80::1%eth0', undefined],
    ['10.1.2', undefined],
    ['10.01.2.3', undefined],
    ['10.1.2.3 ', undefined],
    ['[::1]', undefined],
    ['', undefined],
  ];
  for (const [text, want] of cases) t.equal(parseIp(text)?.text, want, JSON.stringify(text));
  t.end();
});

t.test('parseIp() takes what node:net takes, and nothing else', (t) => {
  const group = fc.constantFrom('0', '1', 'ab', 'ffff', '00000', 'g', '', '1.2.3.4', '01');
  const joined = fc.array(group, { maxLength: 9 }).map((groups) => groups.join(':'));
  const doubled = fc.tuple(joined, joined).map(([a, b]) => `${a}::${b}`);
  const octet = fc.constantFrom('0', '1', '10', '255', '256', '01', '', '+1', 'a');
  const dotted = fc.array(octet, { minLength: 3, maxLength: 5 }).map((parts) => parts.join('.'));
  const text = fc.oneof(joined, doubled, dotted, fc.ipV4(), fc.ipV6(), fc.string({ maxLength: 8 }));
  fc.assert(
    fc.property(text, (candidate) => {
      const isZoned = candidate.includes('%');
      if (canonicalIp(candidate) !== parseIp(candidate)?.text) return false;
      return (parseIp(candidate) !== undefined) === (isIP(candidate) !== 0 && !isZoned);
    }),
    { numRuns: 20_000 },
  );
  t.end();
});

t.test('parseIp() reads back the text of any address', (t) => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 16, maxLength: 16 }), (bytes) => {
      const address = ipFromBytes(bytes);
      const again = parseIp(address.text);
      return again !== undefined && again.text === address.text && compareIps(again, address) === 0;
    }),
  );
  t.end();
});

t.test('parseIpRange() masks host bits and refuses what is no range', (t) => {
  const cases: readonly [string, string | undefined][] = [
    ['10.1.2.3/8', '10.0.0.0/8'],
    ['10.1.2.3', '10.1.2.3/32'],
    ['fd96::50', 'fd96::50/128'],
    ['fd00::1/7', 'fc00::/7'],
    ['0.0.0.0/0', '0.0.0.0/0'],
    ['::/0', '::/0'],
    ['10.1.2.3/33', undefined],
    ['10.1.2.3/', undefined],
    ['10.1.2.3/08', undefined],
    ['10.1.2.3/-1', undefined],
    ['10.1.2.3/8/8', undefined],
  ];
  for (const [text, want] of cases) t.equal(parseIpRange(text)?.text, want, JSON.stringify(text));
  t.end();
});

t.test('isInRange() agrees with the range bounds', (t) => {
  fc.assert(
    fc.property(fc.ipV4(), fc.ipV4(), fc.integer({ min: 0, max: 32 }), (a, base, length) => {
      const address = parseIp(a);
      const range = parseIpRange(`${base}/${length}`);
      if (address === undefined || range === undefined) return false;
      const { first, last } = rangeBounds(range);
      const within =
        Buffer.compare(address.bytes, Buffer.from(first)) >= 0 && Buffer.compare(address.bytes, Buffer.from(last)) <= 0;
      return isInRange(address, range) === within;
    }),
  );
  t.end();
});
