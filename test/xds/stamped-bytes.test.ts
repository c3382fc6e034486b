import fc from 'fast-check';
import t from 'tap';
import { stampedBytes } from '../../src/xds/stamped-bytes.ts';

const bytesOf = (text: string): Uint8Array => Buffer.from(`${text.length} <${text}> and <${text}>`);

t.test('stampedBytes() gives what making gives, whatever the text', (t) => {
  const stamped = stampedBytes(bytesOf);
  const anyText = fc.oneof(fc.stringMatching(/^[a-z0-9_.:/-]{1,5}$/), fc.string(), fc.constantFrom('', '~', '~~', 'ü'));
  fc.assert(
    fc.property(fc.array(anyText, { maxLength: 20 }), (texts) => {
      for (const text of texts) if (Buffer.compare(stamped(text), bytesOf(text)) !== 0) throw new Error(text);
    }),
  );
  t.end();
});

t.test('stampedBytes() makes once for texts of one length', (t) => {
  const made: string[] = [];
  const stamped = stampedBytes((text) => {
    made.push(text);
    return bytesOf(text);
  });
  for (const text of ['abc', 'def', 'ghi']) stamped(text);
  t.strictSame(made, ['~~~', 'abc'], 'and one of them, to see whether that holds');
  t.end();
});

t.test('stampedBytes() makes each where the text is not all that differs', (t) => {
  const make = (text: string): Uint8Array => Buffer.from(text.toUpperCase());
  const stamped = stampedBytes(make);
  for (const text of ['abc', 'def']) t.strictSame(Buffer.from(stamped(text)).toString(), text.toUpperCase());
  t.end();
});
