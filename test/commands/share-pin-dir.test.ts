// Sharing the pins' mount fails no start: what is logged for each answer of the native code, which is played here. Real mounts
// are in test/adapters/kernel/share-pins.test.ts.
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import t from 'tap';
import type { NativeLibrary } from '../../src/adapters/kernel/native-library.ts';
import { sharePinDir } from '../../src/commands/share-pin-dir.ts';
import { RecordingLog } from '../support/recording-log.ts';

/** Answers as ae_share_pins would. */
function answering(status: number): NativeLibrary & { readonly asked: string[] } {
  const asked: string[] = [];
  const callOffThread = (async (name: string, pinDir: string) => {
    asked.push(`${name} ${pinDir}`);
    return status;
  }) as unknown as NativeLibrary['callOffThread'];
  return { asked, callOffThread, call: () => t.bailout('nothing else is called') as never };
}

const CASES: readonly (readonly [title: string, status: number, events: readonly string[]])[] = [
  ['is quiet about a shared mount', 0, ['agent.pins.shared']],
  ['is quiet about one made shared', 1, ['agent.pins.shared']],
  ['warns of one that only follows', 2, ['agent.pins.hidden']],
  ['goes on where it is refused', -1, ['agent.pins.not_shared']],
];

for (const [title, status, events] of CASES) {
  t.test(`sharePinDir() ${title}`, async (t) => {
    const native = answering(status);
    const log = new RecordingLog();
    await sharePinDir(native, { pinDir: '/run/aether/netns', log });
    t.strictSame(native.asked, ['ae_share_pins /run/aether/netns']);
    t.strictSame(
      log.entries.map(({ event }) => event),
      events,
    );
  });
}

t.test('sharePinDir() leaves a directory elsewhere alone', async (t) => {
  const native = answering(1);
  const dir = mkdtempSync('/tmp/ae-pins-');
  t.teardown(() => rmSync(dir, { recursive: true }));
  const pinDir = `${dir}/pins`;
  await sharePinDir(native, { pinDir, log: new RecordingLog() });
  t.strictSame(native.asked, []);
  t.notOk(existsSync(pinDir));
});
