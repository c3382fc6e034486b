// What the started process itself does: what it starts, what it looks at, and what it needs of its environment.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describeCall, openPod, PREV_RESULT } from '../support/runtimes-call.ts';
import { ownEntry, pluginDir } from '../support/runtimes-node.ts';
import { PLACES, ROOM_DIR, startRoomAgent, t } from '../support/runtimes-room.ts';

const agent = await startRoomAgent();
t.teardown(() => agent.stop());

/** Lines of strace for one ADD, followed by the DEL that undoes it. */
function traceAdd(form: 'full' | 'relay'): readonly string[] {
  using pod = openPod();
  const trace = join(ROOM_DIR, `strace-${form}`);
  const call = { ...pod, form, prevResult: PREV_RESULT };
  const { file, env, input } = describeCall('ADD', call);
  const run = spawnSync('strace', ['-f', '-o', trace, file], {
    env: { ...process.env, ...env },
    input,
    encoding: 'utf8',
  });
  if (run.status !== 0) throw new Error(`ADD under strace: ${run.stdout}${run.stderr}`);
  const undo = describeCall('DEL', call);
  spawnSync(undo.file, [], { env: { ...process.env, ...undo.env }, input: undo.input });
  return readFileSync(trace, 'utf8').trim().split('\n');
}

for (const form of ['full', 'relay'] as const) {
  t.test(`ADD of the ${form} plugin starts no program and looks for no process`, async (t) => {
    const lines = traceAdd(form);
    t.equal(lines.filter((line) => /\bexecve(at)?\(/.test(line)).length, 1, 'the plugin alone is executed');
    t.same(
      lines.filter((line) => /"\/proc\/?"|"\/proc\/\d+\//.test(line) && !line.includes('"/proc/1/ns/net"')),
      [],
      "neither /proc nor any /proc/PID is looked at, but the host's own namespace",
    );
    if (form === 'relay') t.ok(lines.length <= 40, `${lines.length} system calls, 40 at most`);
  });

  t.test(`K017 STATUS and GC of the ${form} plugin need no CNI_* but the command`, async (t) => {
    const file = join(pluginDir(form), 'aether-cni');
    for (const CNI_COMMAND of ['STATUS', 'GC']) {
      const config = { ...ownEntry(), cniVersion: '1.1.0', name: 'direct', 'cni.dev/valid-attachments': [] };
      const env = { CNI_COMMAND, AETHER_RELAY_SOCKET: PLACES.relaySocket };
      const run = spawnSync(file, [], { env, input: JSON.stringify(config), encoding: 'utf8' });
      t.match(run, { status: 0, stdout: '' }, `${CNI_COMMAND}: ${run.stderr}`);
    }
  });

  t.test(`K101 VERSION of the ${form} plugin answers without PATH and whatever is on standard input`, async (t) => {
    const file = join(pluginDir(form), 'aether-cni');
    for (const input of ['', '{"cniVersion":', '\u0000garbage', '{"cniVersion":"9.9.9"}']) {
      const run = spawnSync(file, [], { env: { CNI_COMMAND: 'VERSION' }, input, encoding: 'utf8' });
      t.equal(run.status, 0, run.stderr);
      t.match(JSON.parse(run.stdout), { cniVersion: String, supportedVersions: Array });
    }
  });
}
