// The annotation that names a Unix socket in a volume of the pod: two plain names that lead nowhere else, and no path that is
// longer than the kernel takes.
import t from 'tap';
import { ProblemList } from '../../src/core/problems.ts';
import { parseUdsSocket, resolveUdsSocket } from '../../src/mesh/uds-socket.ts';

const UID = '3f0c1f6e-8d4b-4c6f-9a52-6a1de0c0ffee';

t.test('parseUdsSocket() reads volume and file', (t) => {
  const cases: readonly [string | undefined, unknown][] = [
    [undefined, undefined],
    ['run/app.sock', { volume: 'run', file: 'app.sock' }],
    ['a/..b', { volume: 'a', file: '..b' }],
    ['sockets/ö', { volume: 'sockets', file: 'ö' }],
  ];
  for (const [text, want] of cases) {
    const list = new ProblemList();
    t.strictSame(parseUdsSocket(text, list), want, String(text));
    t.ok(list.isEmpty, String(text));
  }
  t.end();
});

for (const text of [
  '',
  '/',
  'run',
  'run/',
  '/app.sock',
  'run/a/b',
  '../x',
  'run/..',
  './x',
  'run/.',
  'run/a\u0000b',
  '/run/app',
]) {
  t.test(`parseUdsSocket() refuses ${JSON.stringify(text)}`, (t) => {
    const list = new ProblemList();
    t.equal(parseUdsSocket(text, list), undefined);
    t.match(list.problems, [
      { path: 'endpoint.aether.io/uds-socket', message: /^must be "volume\/file", two plain names/ },
    ]);
    t.end();
  });
}

const RESOLVED: readonly {
  readonly name: string;
  readonly podsDir: string | undefined;
  readonly uid: string;
  readonly file: string;
  readonly path?: string;
  readonly problem?: RegExp;
}[] = [
  {
    name: 'the kubelet’s own place',
    podsDir: '/var/lib/kubelet/pods',
    uid: UID,
    file: 'app.sock',
    path: `/var/lib/kubelet/pods/${UID}/volumes/kubernetes.io~empty-dir/run/app.sock`,
  },
  {
    name: 'a slash at its end',
    podsDir: '/p//',
    uid: 'u',
    file: 'f',
    path: '/p/u/volumes/kubernetes.io~empty-dir/run/f',
  },
  {
    name: '107 bytes',
    podsDir: '/p',
    uid: 'u',
    file: 'f'.repeat(66),
    path: `/p/u/volumes/kubernetes.io~empty-dir/run/${'f'.repeat(66)}`,
  },
  { name: '108 bytes', podsDir: '/p', uid: 'u', file: 'f'.repeat(67), problem: /107 bytes at most, .* has 108/ },
  { name: 'bytes, not characters', podsDir: '/p', uid: 'u', file: 'ö'.repeat(40), problem: /107 bytes at most/ },
  { name: 'no UID', podsDir: '/p', uid: '', file: 'f', problem: /needs the pod's UID.*K8S_POD_UID/ },
  { name: 'a UID that leads out', podsDir: '/p', uid: '..', file: 'f', problem: /needs the pod's UID/ },
  { name: 'switched off', podsDir: undefined, uid: 'u', file: 'f', problem: /--kubelet-pods-dir off/ },
];

for (const { name, podsDir, uid, file, path, problem } of RESOLVED) {
  t.test(`resolveUdsSocket(): ${name}`, (t) => {
    const list = new ProblemList();
    t.equal(resolveUdsSocket({ volume: 'run', file }, { podsDir, uid }, list), path);
    t.match(list.problems, problem === undefined ? [] : [{ path: 'endpoint.aether.io/uds-socket', message: problem }]);
    t.equal(list.isEmpty, problem === undefined);
    t.end();
  });
}
