// Ports and ranges as users write them, and merging, which may lose no port.
import fc from 'fast-check';
import t from 'tap';
import { includesPort, mergePortRanges, parsePortRange } from '../../src/core/port-range.ts';

t.test('parsePortRange() reads ports and ranges', (t) => {
  const cases: readonly [string, { first: number; last: number } | undefined][] = [
    ['80', { first: 80, last: 80 }],
    ['8000-8100', { first: 8000, last: 8100 }],
    ['1-65535', { first: 1, last: 65535 }],
    ['8100-8000', undefined],
    ['0', undefined],
    ['65536', undefined],
    ['80-', undefined],
    ['*', undefined],
    ['', undefined],
    [' 80', undefined],
  ];
  for (const [text, want] of cases) t.same(parsePortRange(text), want, JSON.stringify(text));
  t.end();
});

t.test('mergePortRanges() keeps every port and leaves no overlap or neighbour', (t) => {
  const range = fc
    .tuple(fc.integer({ min: 1, max: 300 }), fc.integer({ min: 1, max: 300 }))
    .map(([a, b]) => ({ first: Math.min(a, b), last: Math.max(a, b) }));
  fc.assert(
    fc.property(fc.array(range), fc.integer({ min: 1, max: 300 }), (ranges, port) => {
      const merged = mergePortRanges(ranges);
      const apart = merged.every((entry, i) => i === 0 || entry.first > (merged[i - 1]?.last ?? 0) + 1);
      return apart && includesPort(merged, port) === includesPort(ranges, port);
    }),
  );
  t.end();
});
