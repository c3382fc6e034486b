// Tables and changes as nft's text, against golden files and the real nft: it accepts each, or runs it in a namespace.
import { execFileSync } from 'node:child_process';
import t from 'tap';
import { planMeshChange, planMeshTable } from '../../src/capture/mesh-table.ts';
import { planPluginTable } from '../../src/capture/plugin-table.ts';
import { formatElementChange, formatTable } from '../../src/nft/text.ts';
import { cidr, MESH, SCOPED, TABLES } from '../support/capture-cases.ts';
import { readGolden } from '../support/golden.ts';
import { execIn, makeNetns, nftIn } from '../support/netns.ts';

for (const [name, table] of Object.entries(TABLES)) {
  t.test(`formatTable() prints ${name} as the golden file has it, and nft accepts it`, (t) => {
    const text = formatTable(table);
    t.equal(text, readGolden(`nft/${name}.nft`, text));
    execFileSync('nft', ['-c', '-f', '-'], { input: text });
    t.end();
  });
}

for (const redirectAll of [false, true]) {
  for (const [families, texts] of Object.entries({
    'IPv4 only': ['10.0.0.0/8', '192.0.2.1'],
    'IPv6 only': ['fd00::/8', '2001:db8::1'],
    'both families': ['10.0.0.0/8', 'fd00::/8'],
    nothing: [],
  })) {
    t.test(
      `K066 formatTable() excluding ${families}, ${redirectAll ? 'redirect-all' : 'scoped'}, is accepted by nft`,
      (t) => {
        const policy = { ...SCOPED, redirectAll, excludeRanges: texts.map(cidr) };
        for (const table of [planPluginTable(policy), planMeshTable(policy, MESH)]) {
          const text = formatTable(table);
          execFileSync('nft', ['-c', '-f', '-'], { input: text });
          // One rule serves both families wherever the address does not matter.
          t.notMatch(text, /ip6? (protocol|nexthdr)/);
          t.equal(text.includes('meta l4proto tcp redirect to :18001'), redirectAll && table.name === 'aether');
        }
        t.end();
      },
    );
  }
}

t.test('formatTable() prints a script that can be run twice', (t) => {
  const netns = makeNetns(t, 'text');
  const [table] = Object.values(TABLES);
  if (table === undefined) throw new Error('no table');
  for (let run = 0; run < 2; run++) execIn(netns, ['nft', '-f', '-'], { input: formatTable(table) });
  t.match(nftIn(netns, 'list', 'tables'), 'table inet aether');
  t.end();
});

t.test('formatElementChange() prints what nft applies', (t) => {
  const netns = makeNetns(t, 'text');
  const table = TABLES['mesh-scoped'];
  const change = planMeshChange(MESH, { ...MESH, tcp: MESH.tcp.slice(1), shim: [] });
  const back = planMeshChange({ ...MESH, shim: [] }, MESH);
  if (table === undefined || change === undefined || back === undefined) throw new Error('nothing to do');
  execIn(netns, ['nft', '-f', '-'], { input: formatTable(table) });
  execIn(netns, ['nft', '-f', '-'], { input: formatElementChange(change) });
  t.notMatch(nftIn(netns, 'list', 'set', 'inet', 'aether_mesh', 'mesh_tcp4'), '10.96.0.50 . 9000');
  t.notMatch(nftIn(netns, 'list', 'set', 'inet', 'aether_mesh', 'mesh_shim6'), 'fd96::51');
  execIn(netns, ['nft', '-f', '-'], { input: formatElementChange(back) });
  t.match(nftIn(netns, 'list', 'set', 'inet', 'aether_mesh', 'mesh_shim6'), 'fd96::51');
  t.end();
});
