// The matrix of versions and verbs.
import t from 'tap';
import { VERBS } from '../../src/cni/environment.ts';
import { formatVersionAnswer, isAtLeast, parseVersion, SUPPORTED_VERSIONS } from '../../src/cni/versions.ts';

const SINCE: Record<string, string> = { CHECK: '0.4.0', GC: '1.1.0', STATUS: '1.1.0' };

for (const verb of VERBS) {
  for (const version of SUPPORTED_VERSIONS) {
    const fits = version >= (SINCE[verb] ?? '');
    t.test(`parseVersion() ${fits ? 'takes' : 'refuses'} ${version} for ${verb}`, async (t) => {
      if (fits) t.equal(parseVersion(version, verb), version);
      else t.throws(() => parseVersion(version, verb), { code: 'E_VERSION', message: `since ${SINCE[verb]}` });
    });
  }
}

for (const text of [undefined, '', '0.1.0', '0.2.0', '1.2.0', '2.0.0', '9.9.9', 'x', '\n']) {
  t.test(`parseVersion() refuses ${JSON.stringify(text)} (K007, K012)`, async (t) => {
    t.throws(() => parseVersion(text, 'ADD'), { code: 'E_VERSION', supported: SUPPORTED_VERSIONS });
  });
}

t.test('parseVersion() says what an absent version means', async (t) => {
  t.throws(() => parseVersion(undefined, 'ADD'), { message: /absent, which means "0\.2\.0"/ });
});

t.test('isAtLeast() orders versions', async (t) => {
  t.ok(isAtLeast('1.0.0', '0.4.0'));
  t.ok(isAtLeast('1.0.0', '1.0.0'));
  t.notOk(isAtLeast('0.3.1', '0.4.0'));
});

t.test('formatVersionAnswer() is one line of JSON', async (t) => {
  t.equal(
    formatVersionAnswer(),
    '{"cniVersion":"1.1.0","supportedVersions":["0.3.0","0.3.1","0.4.0","1.0.0","1.1.0"]}\n',
  );
});
