// Back from the kernel's expressions to a rule: each of ours comes back as it was, what is none is shown as it is.
import fc from 'fast-check';
import t from 'tap';
import { lowerRule } from '../../src/nft/lower.ts';
import type { Match, Rule, Verdict } from '../../src/nft/model.ts';
import { describeRule, raiseRule } from '../../src/nft/raise.ts';
import { formatRule } from '../../src/nft/text.ts';
import { cidr, ip, TABLES } from '../support/capture-cases.ts';

t.test('raiseRule() brings back every rule of our tables', (t) => {
  const rules = Object.values(TABLES).flatMap(({ chains }) => chains.flatMap((chain) => chain.rules));
  for (const text of new Set(rules.map(formatRule))) {
    const rule = rules.find((candidate) => formatRule(candidate) === text);
    if (rule !== undefined) t.equal(describeRule(lowerRule(rule)), text);
  }
  t.end();
});

const port = fc.integer({ min: 1, max: 65535 });
const protocol = fc.constantFrom('tcp' as const, 'udp' as const);
const family = fc.constantFrom(4 as const, 6 as const);
const address = fc.constantFrom('10.0.0.1', '224.0.0.0', 'fd00::1', 'fe80::', '::').map(ip);
const range = fc.constantFrom('10.0.0.0/8', '10.64.0.0/10', '127.0.0.1', 'fd00::/7', '2001:db8::/32', '::1').map(cidr);
const match: fc.Arbitrary<Match> = fc.oneof(
  fc.record({ kind: fc.constant('mark' as const), mark32: fc.nat(0xffffffff) }),
  fc.record({ kind: fc.constant('l4proto' as const), protocol }),
  fc.record({ kind: fc.constant('dport' as const), protocol, port }),
  fc.record({ kind: fc.constant('daddr' as const), range }),
  fc.record({ kind: fc.constant('dport-in' as const), protocol, set: fc.constant('s') }),
  fc.record({ kind: fc.constant('daddr-in' as const), family, set: fc.constant('s') }),
  fc.record({ kind: fc.constant('daddr-dport-in' as const), family, set: fc.constant('s') }),
);
const verdict: fc.Arbitrary<Verdict> = fc.oneof(
  fc.record({ kind: fc.constant('accept' as const) }),
  fc.record({ kind: fc.constant('reset' as const) }),
  fc.record({ kind: fc.constant('redirect' as const), port }),
  fc.record({ kind: fc.constant('dnat' as const), address, port }),
);

t.test('raiseRule() gives a rule that lowers to the same, or nothing', (t) => {
  const rule: fc.Arbitrary<Rule> = fc.record({ matches: fc.array(match, { maxLength: 3 }), verdict });
  const runs = 200;
  let raisedCount = 0;
  fc.assert(
    fc.property(rule, (planned) => {
      const expressions = lowerRule(planned);
      const raised = raiseRule(expressions);
      if (raised === undefined) return;
      raisedCount++;
      t.strictSame(lowerRule(raised), expressions);
    }),
    { numRuns: runs },
  );
  t.ok(raisedCount > runs / 4, `${raisedCount} of ${runs} came back`);
  t.end();
});

t.test('raiseRule() brings back every rule of one match', (t) => {
  const rule: fc.Arbitrary<Rule> = fc.record({ matches: match.map((only) => [only]), verdict });
  // Said or implied, the protocol check before a reset is the same; what comes back says it, as nft does.
  const isTcpPort = (only: Match | undefined) =>
    only?.kind === 'daddr-dport-in' ||
    ((only?.kind === 'dport' || only?.kind === 'dport-in') && only.protocol === 'tcp');
  const isAmbiguous = ({ matches: [only], verdict: { kind } }: Rule) => kind === 'reset' && !isTcpPort(only);
  fc.assert(
    fc.property(
      rule.filter((planned) => !isAmbiguous(planned)),
      (planned) => describeRule(lowerRule(planned)) === formatRule(planned),
    ),
  );
  t.end();
});

t.test('describeRule() spells the protocol check before a reset as nft does', async (t) => {
  const matches: readonly Match[] = [{ kind: 'daddr', range: cidr('10.254.0.0/16') }];
  const text = 'ip daddr 10.254.0.0/16 meta l4proto tcp reject with tcp reset';
  t.equal(describeRule(lowerRule({ matches, verdict: { kind: 'reset' } })), text);
  const said: readonly Match[] = [...matches, { kind: 'l4proto', protocol: 'tcp' }];
  t.equal(describeRule(lowerRule({ matches: said, verdict: { kind: 'reset' } })), text);
});

t.test('describeRule() shows the expressions of what is no rule of ours', (t) => {
  t.equal(
    describeRule([
      { kind: 'meta-load', key: 'l4proto', register: 1 },
      { kind: 'compare', operator: 'eq', register: 1, value: Uint8Array.of(6) },
      { kind: 'foreign', name: 'drop', detail: '' },
    ]),
    '[ meta load l4proto => reg 1 ] [ cmp eq reg 1 0x06 ] [ drop ]',
  );
  t.equal(raiseRule([]), undefined);
  t.end();
});
