// Can this kernel take our rules? Asked of the kernel itself: both tables, with everything that they can hold, in a new
// network namespace that is gone afterwards. Nothing of the host or of a pod is touched.
import { planMeshTable } from '../../capture/mesh-table.ts';
import { planPluginTable } from '../../capture/plugin-table.ts';
import type { CapturePolicy } from '../../capture/policy.ts';
import type { NetnsPath } from '../../core/identifiers.ts';
import { ipFromBytes } from '../../core/ip.ts';
import { encodeTable } from './encode-batch.ts';
import type { NativeLibrary } from './native-library.ts';
import { transact } from './transact.ts';

/** With DNS, so that it holds every kind of rule. */
const POLICY: CapturePolicy = {
  redirectAll: true,
  excludePorts: [],
  excludeRanges: [],
  dns: { address: ipFromBytes(Uint8Array.of(192, 0, 2, 1)), port: 53 },
};
const NO_SETS = { tcp: [], vip: [], shim: [] };

/**
 * A function that gives a sentence for each table that the kernel refuses (`… kernel lacks nft_redir (ENOENT)`). Once it has
 * taken both it is not asked again: its modules stay. Takes milliseconds, off the event loop.
 */
export function createKernelProbe(native: NativeLibrary): () => Promise<readonly string[]> {
  let isFine = false;
  return async () => {
    if (isFine) return [];
    const problems: string[] = [];
    for (const table of [planPluginTable(POLICY), planMeshTable(POLICY, NO_SETS)]) {
      const batch = encodeTable(native, table, 'create');
      const [outcome] = await transact(native, ['new' as NetnsPath], { batch, inNewNamespace: true });
      if (outcome?.failure !== undefined)
        problems.push(outcome.failure.toError(`try table inet ${table.name}`).message);
    }
    isFine = problems.length === 0;
    return problems;
  };
}
