// Which file the runtime uses, in its own order, and what of it is ours.
import { Buffer } from 'node:buffer';
import t from 'tap';
import { type ConfFile, isConfName, readConfDir } from '../../src/cni/conf-list.ts';

const OURS = { type: 'aether-cni', capabilities: { 'io.kubernetes.cri.pod-annotations': true } };
const file = (name: string, content: unknown): ConfFile => ({
  name,
  bytes: Buffer.from(typeof content === 'string' ? content : JSON.stringify(content)),
});
const list = (name: string, ...plugins: readonly object[]): ConfFile =>
  file(name, { cniVersion: '1.0.0', name: 'pods', plugins });

t.test('readConfDir() takes the first valid file by name, not the newest (K051)', async (t) => {
  const { active, others, broken } = readConfDir([
    list('87-podman-bridge.conflist', { type: 'bridge' }),
    file('200-loopback.conf', { cniVersion: '1.0.0', name: 'lo', type: 'loopback' }),
    file('05-broken.conflist', '{"name": "x",'),
    list('10-pods.conflist.bak', { type: 'wrong' }),
    list('.10-pods.conflist.swp', { type: 'wrong' }),
    file('06-nameless.conflist', { plugins: [{ type: 'bridge' }] }),
    file('07-empty.conflist', { name: 'x', plugins: [] }),
    list('10-pods.conflist', { type: 'ptp' }, OURS),
  ]);
  t.match(active, { file: '10-pods.conflist', types: ['ptp', 'aether-cni'] });
  t.strictSame(
    others.map((other) => other.file),
    ['200-loopback.conf', '87-podman-bridge.conflist'],
  );
  t.match(broken, [
    { file: '05-broken.conflist', reason: /unexpected end/ },
    { file: '06-nameless.conflist', reason: /"name"/ },
    { file: '07-empty.conflist', reason: /no plugin/ },
  ]);
});

t.test('readConfDir() reads our entry, without the name that the runtime adds', async (t) => {
  const { active } = readConfDir([list('10.conflist', { type: 'bridge' }, { ...OURS, agent_timeout_ms: 'soon' })]);
  t.match(active?.entries, [{ index: 1, hasAnnotations: true, problems: [{ path: 'agent_timeout_ms' }] }]);
});

t.test('readConfDir() tells an entry that does not ask for annotations', async (t) => {
  for (const capabilities of [undefined, {}, { 'io.kubernetes.cri.pod-annotations': false }, []]) {
    const { active } = readConfDir([list('10.conflist', { type: 'bridge' }, { type: 'aether-cni', capabilities })]);
    t.equal(active?.entries[0]?.hasAnnotations, false, JSON.stringify(capabilities));
  }
});

t.test('readConfDir() of nothing has no active file', async (t) => {
  t.strictSame(readConfDir([]), { active: undefined, others: [], broken: [] });
});

t.test('isConfName() knows the runtime’s extensions', async (t) => {
  t.strictSame(['a.conf', 'a.conflist', 'a.json', 'a.conflist.bak', 'a.yaml', 'conf'].filter(isConfName), [
    'a.conf',
    'a.conflist',
    'a.json',
  ]);
});
