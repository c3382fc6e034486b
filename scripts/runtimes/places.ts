// Images and tools of the runtime tests, as setup.sh lays them out in build/runtimes.
import { join } from 'node:path';
import { ROOT } from '../lab/places.ts';

/** Name of the sandbox image; no registry has it. */
export const PAUSE_IMAGE = 'aether.test/pause:1';
const OUT = join(ROOT, 'build/runtimes');
export const PAUSE_TAR = join(OUT, 'pause.tar');
/** The one file of the image, static. */
export const PAUSE_BINARY = join(OUT, 'bin/pause');
export const CNITOOL = join(OUT, 'bin/cnitool');
export const NOOP = join(OUT, 'bin/noop');
