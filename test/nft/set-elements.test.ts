// The bytes of set keys as nf_tables has them: big-endian, address and port padded to registers, an interval's end exclusive.
import { Buffer } from 'node:buffer';
import t from 'tap';
import type { NftSet } from '../../src/nft/model.ts';
import { lowerSet } from '../../src/nft/set-elements.ts';
import { cidr, ip } from '../support/capture-cases.ts';

interface Case {
  readonly title: string;
  readonly set: NftSet;
  readonly keyType: number;
  readonly keyLength: number;
  /** Keys in hex, with `)` before the exclusive end of an interval. */
  readonly keys: readonly string[];
}

const CASES: readonly Case[] = [
  {
    title: 'ports as intervals with an exclusive end',
    set: {
      kind: 'ports',
      name: 's',
      elements: [
        { first: 22, last: 22 },
        { first: 8000, last: 8100 },
      ],
    },
    keyType: 13,
    keyLength: 2,
    keys: ['0016', ')0017', '1f40', ')1fa5'],
  },
  {
    title: 'a range up to the last port without an end',
    set: { kind: 'ports', name: 's', elements: [{ first: 65000, last: 65535 }] },
    keyType: 13,
    keyLength: 2,
    keys: ['fde8'],
  },
  {
    title: 'an end that carries over bytes',
    set: { kind: 'ranges', name: 's', family: 4, elements: [cidr('10.0.0.0/9'), cidr('255.0.0.0/8')] },
    keyType: 7,
    keyLength: 4,
    keys: ['0a000000', ')0a800000', 'ff000000'],
  },
  {
    title: 'IPv6 ranges',
    set: { kind: 'ranges', name: 's', family: 6, elements: [cidr('fd00::/8')] },
    keyType: 8,
    keyLength: 16,
    keys: [`fd${'00'.repeat(15)}`, `)fe${'00'.repeat(15)}`],
  },
  {
    title: 'addresses as single keys',
    set: { kind: 'addresses', name: 's', family: 4, elements: [ip('10.96.0.50')] },
    keyType: 7,
    keyLength: 4,
    keys: ['0a600032'],
  },
  {
    title: 'IPv4 address and port, the port padded to a register',
    set: { kind: 'address-ports', name: 's', family: 4, elements: [{ address: ip('10.96.0.50'), port: 9000 }] },
    keyType: (7 << 6) | 13,
    keyLength: 8,
    keys: ['0a60003223280000'],
  },
  {
    title: 'IPv6 address and port',
    set: { kind: 'address-ports', name: 's', family: 6, elements: [{ address: ip('fd96::50'), port: 18082 }] },
    keyType: (8 << 6) | 13,
    keyLength: 20,
    keys: [`fd96${'00'.repeat(13)}5046a20000`],
  },
];

for (const { title, set, keyType, keyLength, keys } of CASES) {
  t.test(`lowerSet() packs ${title}`, (t) => {
    const lowered = lowerSet(set, 3);
    const hex = Buffer.from(lowered.elements.keys).toString('hex');
    const actual = Array.from({ length: lowered.elements.count }, (_, i) => {
      const end = lowered.elements.ends[i] === 1 ? ')' : '';
      return end + hex.slice(i * keyLength * 2, (i + 1) * keyLength * 2);
    });
    t.strictSame(actual, keys);
    t.match(lowered, { keyType, keyLength, id: 3, isInterval: set.kind === 'ports' || set.kind === 'ranges' });
    t.end();
  });
}
