// All tables of a real namespace, ours and others'.
import t from 'tap';
import { listTables } from '../../../src/adapters/kernel/list-tables.ts';
import { parseNetnsPath } from '../../../src/core/identifiers.ts';
import { openNative } from '../../support/native.ts';
import { execIn, makeNetns } from '../../support/netns.ts';

const native = openNative();

t.test('listTables() names every family and counts rules', async (t) => {
  const netns = makeNetns(t, 'tables');
  t.strictSame(await listTables(native, netns.path), []);
  execIn(netns, ['nft', '-f', '-'], {
    input: [
      'table inet aether { chain c { accept; accept; }; }',
      'table ip aether { chain c { accept; }; }',
      'table ip6 empty { }',
      'table bridge b { chain c { accept; }; }',
      'table arp a { }',
    ].join('\n'),
  });
  const found = await listTables(native, netns.path);
  t.strictSame(found.map(({ family, name, ruleCount }) => `${family} ${name} ${ruleCount}`).sort(), [
    'arp a 0',
    'bridge b 1',
    'inet aether 2',
    'ip aether 1',
    'ip6 empty 0',
  ]);
});

t.test('listTables() of no namespace says so', async (t) => {
  const path = parseNetnsPath('/run/netns/ae-none');
  if (typeof path === 'object') throw new Error(path.problem);
  await t.rejects(listTables(native, path), { code: 'E_NETNS', problem: 'missing' });
});
