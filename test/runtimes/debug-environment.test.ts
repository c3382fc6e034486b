// K001: whatever the environment makes Node and gRPC say, standard output is exactly one JSON document or empty.
import type { CniCommand } from '../../scripts/lab/cni-runtime.ts';
import type { PluginForm } from '../../scripts/runtimes/plugin-dir.ts';
import { callPlugin, openPod, PREV_RESULT } from '../support/runtimes-call.ts';
import { PLACES, startRoomAgent, t } from '../support/runtimes-room.ts';

const agent = await startRoomAgent();
t.teardown(() => agent.stop());

// The whole environment of each case, but for the relay's socket and CNI_*.
const PATH = '/usr/sbin:/usr/bin:/sbin:/bin';
const environments = [
  { name: 'nothing at all: no PATH, HOME, locale', env: {} },
  {
    name: 'Node warnings',
    env: { PATH, NODE_OPTIONS: '--trace-warnings --trace-deprecation', NODE_PENDING_DEPRECATION: '1' },
  },
  { name: 'a Node option that does not exist', env: { PATH, NODE_OPTIONS: '--no-such-option' } },
  { name: 'a module to preload that does not exist', env: { PATH, NODE_OPTIONS: '--require /nonexistent.js' } },
  {
    name: "Node's own debug output",
    env: { PATH, NODE_DEBUG: 'net,http2,tls,stream,timer', NODE_DEBUG_NATIVE: 'net' },
  },
  { name: "gRPC's trace", env: { PATH, GRPC_TRACE: 'all', GRPC_VERBOSITY: 'DEBUG' } },
  {
    name: 'missing certificate directories',
    env: { PATH, SSL_CERT_DIR: '/nonexistent', NODE_EXTRA_CA_CERTS: '/nonexistent' },
  },
  {
    name: 'a locale and a home that do not exist',
    env: { PATH, LANG: 'xx_YY', LC_ALL: 'xx_YY', HOME: '/nonexistent' },
  },
] as const;

/** In the order of a pod's life. ADD and VERSION answer a document, the others nothing. */
const verbs: readonly { readonly verb: CniCommand; readonly answer?: object }[] = [
  { verb: 'VERSION', answer: { supportedVersions: Array } },
  { verb: 'STATUS' },
  { verb: 'ADD', answer: PREV_RESULT },
  { verb: 'CHECK' },
  { verb: 'GC' },
  { verb: 'DEL' },
];

for (const form of ['full', 'relay'] as const satisfies readonly PluginForm[]) {
  for (const { name, env } of environments) {
    t.test(`K001 the ${form} plugin with ${name}`, async (t) => {
      using pod = openPod();
      const call = { ...pod, form, env: { ...env, AETHER_RELAY_SOCKET: PLACES.relaySocket } };
      for (const { verb, answer } of verbs) {
        const cniVersion = verb === 'STATUS' || verb === 'GC' ? '1.1.0' : '1.0.0';
        const attached = verb === 'ADD' || verb === 'CHECK' || verb === 'DEL';
        const run = callPlugin(verb, { ...call, cniVersion, ...(attached ? { prevResult: PREV_RESULT } : {}) });
        t.equal(run.status, 0, `${verb}: ${run.stdout}${run.stderr.slice(-500)}`);
        if (answer === undefined) t.equal(run.stdout, '', `${verb} prints nothing`);
        else t.match(JSON.parse(run.stdout), answer, `${verb} prints one document`);
      }
      const failed = callPlugin('ADD', call);
      t.not(failed.status, 0);
      t.match(JSON.parse(failed.stdout), { code: 7, msg: /prevResult/ }, 'a failure prints one error object');
    });
  }
}
