// The texts of the tables are golden files (test/nft/text.test.ts); here is what must hold for all of them.
import t from 'tap';
import { planPluginTable } from '../../src/capture/plugin-table.ts';
import { formatRule } from '../../src/nft/text.ts';
import { EXCLUDING, ip, REDIRECT_ALL, SCOPED } from '../support/capture-cases.ts';

const rulesOf = (policy: Parameters<typeof planPluginTable>[0]) =>
  planPluginTable(policy).chains.flatMap((chain) => chain.rules.map(formatRule));

t.test('planPluginTable() redirect-all is scoped and one rule more, the last', (t) => {
  t.strictSame(rulesOf(REDIRECT_ALL), [...rulesOf(SCOPED), 'meta l4proto tcp redirect to :18001']);
  t.end();
});

t.test('planPluginTable() rules do not depend on what is excluded', (t) => {
  t.strictSame(rulesOf(EXCLUDING), rulesOf(REDIRECT_ALL));
  t.end();
});

t.test('planPluginTable() sends DNS of the resolver’s family only, before link-local is accepted', (t) => {
  const rules = rulesOf({ ...SCOPED, dns: { address: ip('fd00::53'), port: 18054 } });
  const dns = rules.filter((rule) => rule.includes('dport 53'));
  t.strictSame(dns, ['udp dport 53 dnat ip6 to [fd00::53]:18054', 'tcp dport 53 dnat ip6 to [fd00::53]:18054']);
  t.ok(rules.indexOf(dns[1] ?? '') < rules.indexOf('ip daddr 169.254.0.0/16 accept'));
  t.ok(rules.indexOf(dns[0] ?? '') > rules.indexOf('ip6 daddr ::1 accept'));
  t.end();
});

t.test('planPluginTable() never touches UDP 18082', (t) => {
  for (const policy of [SCOPED, REDIRECT_ALL, EXCLUDING]) {
    t.strictSame(
      rulesOf(policy).filter((rule) => rule.startsWith('udp')),
      ['udp dport 18081 redirect to :18001'],
    );
  }
  t.end();
});
