// What may bypass the mesh, as annotations and configuration write it: ports and ranges merged, every problem named, and
// random hostile text never becomes part of a rule.
import fc from 'fast-check';
import t from 'tap';
import {
  formatExclusionAnnotations,
  joinExclusions,
  parseExclusionAnnotations,
  parseExclusions,
} from '../../src/capture/parse-exclusions.ts';
import { planPluginTable } from '../../src/capture/plugin-table.ts';
import { ANNOTATION_EXCLUDE_PORTS as PORTS, ANNOTATION_EXCLUDE_RANGES as RANGES } from '../../src/mesh/constants.ts';
import { formatTable } from '../../src/nft/text.ts';
import { SCOPED } from '../support/capture-cases.ts';

function parse(ports: string, ranges: string) {
  return parseExclusionAnnotations({ [PORTS]: ports, [RANGES]: ranges });
}

/** The values as annotation text, or the problems' paths and messages. */
function summarise(ports: string, ranges: string): string {
  const parsed = parse(ports, ranges);
  if (parsed.kind === 'problems') return parsed.problems.map(({ path, message }) => `${path}: ${message}`).join('\n');
  const text = formatExclusionAnnotations(parsed.value);
  return `${text[PORTS] ?? ''} ${text[RANGES] ?? ''}`;
}

const HUNDRED = Array.from({ length: 100 }, (_, i) => `${20_000 + 2 * i}`);

const VALUES: readonly (readonly [title: string, ports: string, ranges: string, want: string])[] = [
  ['takes nothing', '', '', ' '],
  ['ignores blanks and empty items', ' 80 ,, 22,', ' ,', '22,80 '],
  ['merges overlapping and adjacent ports', '8000-8100,8050-8200,8201,80,80', '', '80,8000-8201 '],
  ['takes a bare address as a range of one', '', '10.0.0.1,fd00::1', ' 10.0.0.1/32,fd00::1/128'],
  ['masks host bits', '', '10.1.2.3/8', ' 10.0.0.0/8'],
  ['drops a range within another, whatever the order', '', '10.1.0.0/16,10.0.0.0/8,10.0.0.0/8', ' 10.0.0.0/8'],
  ['joins halves again and again', '', '10.0.0.0/10,10.64.0.0/10,10.128.0.0/9', ' 10.0.0.0/8'],
  ['leaves neighbours that are no halves apart', '', '10.64.0.0/10,10.128.0.0/10', ' 10.64.0.0/10,10.128.0.0/10'],
  ['takes a hundred ports', HUNDRED.join(','), '', `${HUNDRED.join(',')} `],
  ['takes everything', '1-65535', '0.0.0.0/0,::/0,10.0.0.0/8', '1-65535 0.0.0.0/0,::/0'],
  ['sorts IPv4 before IPv6', '', 'fd00::/8,10.0.0.0/8', ' 10.0.0.0/8,fd00::/8'],
];

for (const [title, ports, ranges, want] of VALUES) {
  t.test(`K068 parseExclusionAnnotations() ${title}`, (t) => {
    t.equal(summarise(ports, ranges), want);
    t.end();
  });
}

const PROBLEMS: readonly (readonly [title: string, ports: string, ranges: string, paths: readonly string[]])[] = [
  ['a star', '*', '', [`${PORTS}[0]`]],
  ['port 0 and ports above 65535', '80,0,65536', '', [`${PORTS}[1]`, `${PORTS}[2]`]],
  ['a reversed range', '90-80', '', [`${PORTS}[0]`]],
  ['a name', 'http', '', [`${PORTS}[0]`]],
  ['a prefix that is too long', '', '10.0.0.0/33,fd00::/129', [`${RANGES}[0]`, `${RANGES}[1]`]],
  ['half an address', '', '10.0.0', [`${RANGES}[0]`]],
  ['all of them at once', 'x', '10.0.0.0/8,y', [`${PORTS}[0]`, `${RANGES}[1]`]],
];

for (const [title, ports, ranges, paths] of PROBLEMS) {
  t.test(`K068 parseExclusionAnnotations() refuses ${title}`, (t) => {
    const parsed = parse(ports, ranges);
    t.equal(parsed.kind, 'problems');
    if (parsed.kind === 'problems')
      t.strictSame(
        parsed.problems.map(({ path }) => path),
        paths,
      );
    t.end();
  });
}

t.test('parseExclusions() names the configuration key and quotes the value', (t) => {
  const parsed = parseExclusions({
    ports: { path: 'exclude_outbound_ports', text: '22,x' },
    ranges: { path: 'exclude_outbound_ip_ranges', text: '' },
  });
  const message = 'must be a port or a range like 8000-8100 within 1..65535, got "x"';
  t.match(parsed, { kind: 'problems', problems: [{ path: 'exclude_outbound_ports[1]', message }] });
  t.end();
});

t.test('K068 joinExclusions() merges the node’s and the pod’s', (t) => {
  const exclude = (ports: string, ranges: string) => {
    const parsed = parse(ports, ranges);
    if (parsed.kind !== 'value') throw new Error('does not parse');
    return parsed.value;
  };
  const join = (...[a, b]: Parameters<typeof joinExclusions>) => formatExclusionAnnotations(joinExclusions(a, b));
  const [node, pod, none] = [exclude('22', '10.0.0.0/9'), exclude('23,80', '10.128.0.0/9'), exclude('', ' ,')];
  t.strictSame(join(node, pod), { [PORTS]: '22-23,80', [RANGES]: '10.0.0.0/8' });
  t.strictSame(join(node, none), { [PORTS]: '22', [RANGES]: '10.0.0.0/9' });
  t.strictSame(join(none, pod), { [PORTS]: '23,80', [RANGES]: '10.128.0.0/9' });
  t.strictSame(join(node, exclude('23', '')), { [PORTS]: '22-23', [RANGES]: '10.0.0.0/9' });
  t.strictSame(join(none, none), {});
  t.end();
});

t.test('K068 parseExclusionAnnotations() takes absent annotations for empty ones', (t) => {
  t.strictSame(parseExclusionAnnotations({}), parse('', ''));
  t.end();
});

t.test('K069 parseExclusionAnnotations() lets nothing but numbers and addresses through to a rule', (t) => {
  const hostile = fc.oneof(
    fc.string(),
    fc.string({ unit: 'binary' }),
    fc.constantFrom(
      '80; flush ruleset',
      '80 } accept',
      '10.0.0.0/8"',
      '::1%eth0',
      '80\n81',
      '８０',
      '0x50',
      '1e3',
      '-1',
      '80-',
    ),
  );
  const rest = (text: string) => text.replaceAll(/\b(\d{1,5}(-\d{1,5})?|[0-9a-f:.]+(\/\d{1,3})?)\b/g, '');
  const nothing = rest(formatTable(planPluginTable(SCOPED)).replaceAll(/\s+/g, ' '));
  fc.assert(
    fc.property(fc.array(hostile), fc.array(hostile), (ports, ranges) => {
      const parsed = parse(ports.join(','), ranges.join(','));
      if (parsed.kind === 'problems') return true;
      const { ports: excludePorts, ranges: excludeRanges } = parsed.value;
      const text = formatTable(planPluginTable({ ...SCOPED, excludePorts, excludeRanges }));
      const bare = text.replaceAll(/ *elements = \{[0-9a-f:.,/ -]*\}/g, '').replaceAll(/\s+/g, ' ');
      return rest(bare) === nothing;
    }),
    { numRuns: 500 },
  );
  t.end();
});
