// Messages made by putting new texts into the bytes of an old one: the same bytes as making them, also where texts change more
// than their own places.
import fc from 'fast-check';
import t from 'tap';
import { StampedBytes } from '../../src/xds/stamped-bytes.ts';

const bytesOf = (texts: readonly string[]): Uint8Array =>
  Buffer.from(`${texts.join().length} ${texts.join()} and ${texts.join('-')}`);

t.test('StampedBytes.encode() gives what making gives, whatever the texts', (t) => {
  const stamped = new StampedBytes();
  const anyText = fc.oneof(
    fc.stringMatching(/^[a-z0-9_.:/-]{1,5}$/),
    fc.string(),
    fc.constantFrom('', '~', '~~', 'ü', '^'),
  );
  fc.assert(
    fc.property(fc.array(fc.tuple(anyText, anyText), { maxLength: 20 }), (list) => {
      for (const texts of list) {
        if (Buffer.compare(stamped.encode({ texts, make: bytesOf }), bytesOf(texts)) !== 0)
          throw new Error(String(texts));
      }
    }),
  );
  t.end();
});

t.test('StampedBytes.encode() makes once for texts of the same lengths and what is else the same', (t) => {
  const made: string[] = [];
  const stamped = new StampedBytes();
  const encode = (text: string, key: string): Uint8Array =>
    stamped.encode({
      ...{ texts: [text], key },
      make: ([text = '']) => {
        made.push(text);
        return bytesOf([text, key]);
      },
    });
  for (const text of ['abc', 'def', 'ghi']) t.same(encode(text, 'a'), bytesOf([text, 'a']));
  t.strictSame(made, ['~~~', 'abc'], 'and one of them, to see whether that holds');
  t.same(encode('def', 'b'), bytesOf(['def', 'b']));
  t.end();
});

t.test('StampedBytes.encode() makes each where the texts are not all that differs', (t) => {
  const stamped = new StampedBytes();
  const make = ([text = '']: readonly string[]): Uint8Array => Buffer.from(text.toUpperCase());
  for (const text of ['abc', 'def']) t.same(stamped.encode({ texts: [text], make }), make([text]));
  t.end();
});
