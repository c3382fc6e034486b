// Positions, duplicates, exact numbers, and that it takes and refuses exactly what JSON.parse does.
import fc from 'fast-check';
import t from 'tap';
import { findMember, type JsonNode, parseJson } from '../../src/cni/json.ts';
import { DecodeError } from '../../src/core/errors.ts';

function toValue(node: JsonNode): unknown {
  if (node.kind === 'object') return Object.fromEntries(node.members.map(({ key, value }) => [key, toValue(value)]));
  if (node.kind === 'array') return node.items.map(toValue);
  return node.kind === 'null' ? null : node.value;
}

t.test('parseJson() reads what JSON.parse reads', async (t) => {
  fc.assert(
    fc.property(fc.json({ maxDepth: 5 }), fc.constantFrom(undefined, 2, '\t'), (json, indent) => {
      const text = JSON.stringify(JSON.parse(json), null, indent);
      t.strictSame(toValue(parseJson(text, 'x')), JSON.parse(text));
    }),
  );
});

t.test('parseJson() refuses what JSON.parse refuses', async (t) => {
  const mutated = fc.tuple(
    fc.json({ maxDepth: 3 }),
    fc.nat(),
    fc.constantFrom('', '"', '{', ',', '0', '\\', '\n', 'e', ']'),
  );
  fc.assert(
    fc.property(mutated, ([json, at, insert]) => {
      const cut = at % (json.length + 1);
      const text = json.slice(0, cut) + insert + json.slice(cut + 1);
      const [ours, theirs] = [() => parseJson(text, 'x'), () => JSON.parse(text)].map((read) => {
        try {
          read();
          return 'taken';
        } catch (error) {
          return error instanceof DecodeError || error instanceof SyntaxError ? 'refused' : String(error);
        }
      });
      t.equal(ours, theirs, JSON.stringify(text));
    }),
    { numRuns: 500 },
  );
});

const REFUSED = [
  ['', 'line 1 column 1: unexpected end of the input'],
  ['{"a":1', 'line 1 column 7: unexpected end of the input'],
  ['{"a":1}x', 'line 1 column 8: expected the end of the input'],
  ['{\n "a": tru }', 'line 2 column 10: expected a value'],
  ['{"a" 1}', 'line 1 column 6: expected ":" after the key'],
  ["{'a':1}", 'line 1 column 2: expected a key in double quotes'],
  ['[1 2]', 'line 1 column 4: expected "," or "]"'],
  ['{"a":1,}', 'line 1 column 8: expected a key in double quotes'],
  ['[01]', 'line 1 column 3: expected "," or "]"'],
  ['"\\x"', 'line 1 column 3: a string holds an unknown escape'],
  ['"\\u12"  ', 'line 1 column 3: a string holds a malformed escape'],
  ['"a\nb"', 'line 1 column 3: a string holds a control character'],
  ['{"a":/*x*/1}', 'line 1 column 6: expected a value'],
] as const;
for (const [text, message] of REFUSED) {
  t.test(`parseJson() says where ${JSON.stringify(text)} is wrong`, async (t) => {
    t.throws(() => parseJson(text, 'x'), { code: 'E_DECODE', message: `decoding x: ${message}` });
  });
}

t.test('parseJson() refuses endless nesting without overflowing', async (t) => {
  t.throws(() => parseJson('['.repeat(100_000), 'x'), { message: /more than 500 levels deep/ });
  t.ok(parseJson('['.repeat(500) + ']'.repeat(500), 'x'));
});

t.test('parseJson() keeps positions and duplicate keys', async (t) => {
  const text = ' {"a" : 1e400, "b":[12345678901234567890.10], "a":"z"} ';
  const node = parseJson(text, 'x');
  if (node.kind !== 'object') throw new Error('not an object');
  t.equal(text.slice(node.start, node.end), text.trim());
  t.same(
    node.members.map(({ key, start, value }) => [key, text.slice(start, value.end)]),
    [
      ['a', '"a" : 1e400'],
      ['b', '"b":[12345678901234567890.10]'],
      ['a', '"a":"z"'],
    ],
  );
  t.match(findMember(node, 'a')?.value, { kind: 'string', value: 'z' });
  t.equal(findMember(node, 'c'), undefined);
});
