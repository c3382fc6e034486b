// Names that reach paths and rules, against the rules as they are written elsewhere.
import fc from 'fast-check';
import t from 'tap';
import { isDnsLabel, isDnsName, isNetworkName, isPodUid } from '../../src/core/identifiers.ts';

// As Kubernetes and libcni spell them.
const SPELT: readonly (readonly [name: string, is: (text: string) => boolean, RegExp])[] = [
  ['isNetworkName', isNetworkName, /^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/],
  ['isDnsLabel', isDnsLabel, /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/],
  ['isDnsName', isDnsName, /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/],
  ['isPodUid', isPodUid, /^[-0-9A-Za-z_.]{1,128}$/],
];
for (const [name, is, pattern] of SPELT) {
  t.test(`${name}() takes what its rule takes, and nothing else`, (t) => {
    const character = fc.constantFrom(...'azAZ09-_. \n\u0000\u0660é/'.split(''));
    const text = fc.array(character, { maxLength: 5 }).map((all) => all.join(''));
    const long = fc.tuple(text, fc.integer({ min: 55, max: 260 }), text).map(([a, n, b]) => `${a}${'a'.repeat(n)}${b}`);
    fc.assert(
      fc.property(fc.oneof(text, long), (input) => is(input) === pattern.test(input)),
      { numRuns: 2000 },
    );
    t.pass();
    t.end();
  });
}
