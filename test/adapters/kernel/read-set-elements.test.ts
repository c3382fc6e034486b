// Replies that are cut or strange; whole ones come from the kernel in dump-table.test.ts.
import t from 'tap';
import { readSetElements } from '../../../src/adapters/kernel/read-set-elements.ts';

const attribute = (type: number, content: Buffer): Buffer => {
  const bytes = Buffer.alloc((4 + content.length + 3) & ~3);
  bytes.writeUInt16LE(4 + content.length, 0);
  bytes.writeUInt16LE(type, 2);
  content.copy(bytes, 4);
  return bytes;
};
const number = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
};
/** NFTA_LIST_ELEM with NFTA_SET_ELEM_KEY (1) and NFTA_SET_ELEM_FLAGS (3); the kernel marks what is nested by 0x8000. */
const element = (key: string, flags: number): Buffer =>
  attribute(
    0x8001,
    Buffer.concat([attribute(0x8001, attribute(1, Buffer.from(key, 'hex'))), attribute(3, number(flags))]),
  );

const show = (bytes: Buffer | undefined): string =>
  readSetElements(bytes)
    .map(({ key, isEnd }) => `${Buffer.from(key).toString('hex')}${isEnd ? ' end' : ''}`)
    .join(', ');

const whole = Buffer.concat([element('0a000001', 0), element('0a00000200', 1), element('0019', 0)]);
const CASES: readonly (readonly [string, Buffer | undefined, string])[] = [
  ['nothing', undefined, ''],
  ['no element', Buffer.alloc(0), ''],
  ['keys of any length, and ends', whole, '0a000001, 0a00000200 end, 0019'],
  ['what is cut in the last element', whole.subarray(0, -6), '0a000001, 0a00000200 end'],
  ['a length that is none', Buffer.from('0000000000000000', 'hex'), ''],
  ['an element without a key', attribute(0x8001, attribute(3, number(1))), ' end'],
];
for (const [name, bytes, want] of CASES) {
  t.test(`readSetElements() reads ${name}`, (t) => {
    t.equal(show(bytes), want);
    t.end();
  });
}
