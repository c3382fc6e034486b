// Root only: pins are mounts.
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import t from 'tap';
import { holdPin } from '../../../src/adapters/kernel/hold-pin.ts';
import { createNamespaces } from '../../../src/adapters/kernel/namespaces.ts';
import { createRules } from '../../../src/adapters/kernel/rules.ts';
import { PLUGIN_TABLE, planPluginTable } from '../../../src/capture/plugin-table.ts';
import type { ContainerId, NetnsPath } from '../../../src/core/identifiers.ts';
import { openNative } from '../../support/native.ts';
import { execIn, makeNetns } from '../../support/netns.ts';

const native = openNative();
const namespaces = createNamespaces(native);
const rules = createRules(native);
const containerId = 'c1' as ContainerId;

/** Inodes of what this process holds open; the descriptor of the listing itself is gone by then. */
function listInodes(): readonly number[] {
  return readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      return [statSync(`/proc/self/fd/${fd}`).ino];
    } catch {
      return [];
    }
  });
}

t.test('holdPin() leads to the namespace that was pinned after the pin was replaced', async (t) => {
  const pinDir = mkdtempSync('/tmp/ae-hold-');
  t.teardown(async () => {
    await namespaces.unpin({ pinDir, containerId });
    rmSync(pinDir, { recursive: true });
  });
  t.equal(await holdPin({ pinDir, containerId }), undefined, 'no pin');
  const [one, other] = [makeNetns(t, 'hold-one'), makeNetns(t, 'hold-other')];
  const pinned = await namespaces.pin(one.path as NetnsPath, { pinDir, containerId });
  await rules.replaceTable(pinned, planPluginTable({ redirectAll: false, excludePorts: [], excludeRanges: [] }));
  {
    using held = await holdPin({ pinDir, containerId });
    if (held === undefined) throw new Error('no hold');
    await namespaces.pin(one.path as NetnsPath, { pinDir, containerId });
    t.equal(held.isReplaced(), false, 'pinned again');
    await namespaces.pin(other.path as NetnsPath, { pinDir, containerId });
    t.equal(held.isReplaced(), true);
    t.ok(listInodes().includes(statSync(one.path).ino));
    t.equal(statSync(pinned).ino, statSync(other.path).ino);
    await rules.destroyTable(held.netns, PLUGIN_TABLE);
    t.equal(execIn(one, ['nft', 'list', 'tables']), '');
  }
  t.notOk(listInodes().includes(statSync(one.path).ino), 'and is let go');
});
