// Planned elements against reported ones, compared by bytes: the same as comparing their texts, for random sets.
import fc from 'fast-check';
import t from 'tap';
import { diffElements, type PlainSet } from '../../src/nft/diff-elements.ts';
import { listElements } from '../../src/nft/text.ts';
import { reportTable } from '../support/kernel-report.ts';
import { makeIp } from '../support/services.ts';

const reported = (set: PlainSet) => {
  const [found] = reportTable({ name: 'x', sets: [set], chains: [] }).sets;
  if (found === undefined) throw new Error('no set');
  return found;
};
const texts = (set: PlainSet | undefined): readonly string[] =>
  set === undefined ? [] : [...listElements(set)].sort();

const address4 = fc.integer({ min: 0, max: 40 }).map((n) => makeIp(`10.254.0.${n}`));
const address6 = fc.integer({ min: 1, max: 40 }).map((n) => makeIp(`fd0a:e7e0::${n.toString(16)}`));
const port = fc.constantFrom(1, 255, 256, 9000, 18082, 65535);
const unique = <T>(one: fc.Arbitrary<T>, selector: (item: T) => string) =>
  fc.uniqueArray(one, { selector, maxLength: 12 });

const KINDS: readonly { readonly name: string; readonly sets: fc.Arbitrary<readonly [PlainSet, PlainSet]> }[] = (
  [
    ['IPv4', 4, address4],
    ['IPv6', 6, address6],
  ] as const
).flatMap(([name, family, address]) => {
  const addresses = unique(address, ({ text }) => text).map((elements): PlainSet => {
    return { kind: 'addresses', name: 's', family, elements };
  });
  const pairs = unique(fc.record({ address, port }), (item) => `${item.address.text} ${item.port}`);
  const ports = pairs.map((elements): PlainSet => ({ kind: 'address-ports', name: 's', family, elements }));
  return [
    { name: `${name} addresses`, sets: fc.tuple(addresses, addresses) },
    { name: `${name} addresses and ports`, sets: fc.tuple(ports, ports) },
  ];
});

for (const { name, sets } of KINDS) {
  t.test(`diffElements() finds what differs of ${name}, and nothing else`, (t) => {
    fc.assert(
      fc.property(sets, ([planned, there]) => {
        const { missing, extra } = diffElements(planned, reported(there));
        const [wanted, found] = [texts(planned), texts(there)];
        const without = (from: readonly string[], what: readonly string[]) => from.filter((one) => !what.includes(one));
        return (
          texts(missing).join() === without(wanted, found).join() &&
          texts(extra).join() === without(found, wanted).join()
        );
      }),
    );
    t.end();
  });
}

t.test('diffElements() says nothing of what is equal', (t) => {
  const set: PlainSet = { kind: 'addresses', name: 's', family: 4, elements: ['10.0.0.2', '10.0.0.1'].map(makeIp) };
  t.strictSame(diffElements(set, reported(set)), {});
  t.end();
});
