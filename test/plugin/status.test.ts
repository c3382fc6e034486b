// STATUS: fine, limited or unavailable, with a sentence (K018).
import t from 'tap';
import { AgentError, NativeError } from '../../src/core/errors.ts';
import { FakePluginNode } from '../support/fake-plugin-node.ts';
import { callPlugin, errorOf } from '../support/plugin-call.ts';

t.test('reportStatus() says nothing when all is well', async (t) => {
  t.strictSame(await callPlugin(new FakePluginNode(), 'STATUS'), { stdout: '', stderr: '', exitCode: 0 });
});

t.test('reportStatus() is not asked where no ADD could succeed for the configuration', async (t) => {
  const config = { exclude_outbound_ip_ranges: 'nowhere' };
  const answer = await callPlugin(new FakePluginNode(), 'STATUS', { config });
  t.match(errorOf(answer), { code: 7, msg: /exclude_outbound_ip_ranges\[0\]: must be/ });
});

t.test('reportStatus() only warns of what an ADD can do without', async (t) => {
  const node = new FakePluginNode();
  node.status = { ready: true, problems: ['no proxy is connected'] };
  t.strictSame(await callPlugin(node, 'STATUS'), {
    stdout: '',
    stderr: 'aether-cni: no proxy is connected\n',
    exitCode: 0,
  });
});

t.test('reportStatus() answers 51 while the agent is not ready', async (t) => {
  const node = new FakePluginNode();
  node.status = { ready: false, problems: ['it starts', 'it waits'] };
  t.match(errorOf(await callPlugin(node, 'STATUS')), { code: 51, msg: /not ready: it starts; it waits/ });
});

t.test('reportStatus() answers 50 while the agent is away', async (t) => {
  const node = new FakePluginNode();
  const away = new AgentError('unavailable', 'asking the agent: away');
  const deps = { ...node.deps, admin: { ...node.deps.admin, status: async () => Promise.reject(away) } };
  Object.assign(node, { deps });
  t.match(errorOf(await callPlugin(node, 'STATUS')), { code: 50, msg: 'asking the agent: away' });
});

t.test('reportStatus() answers 50 where the kernel cannot be asked', async (t) => {
  const node = new FakePluginNode();
  node.deps = {
    ...node.deps,
    probeKernel: async () => Promise.reject(new NativeError('load libaether: no such file')),
  };
  t.match(errorOf(await callPlugin(node, 'STATUS')), {
    code: 50,
    msg: /asking the kernel .*: load libaether: no such file$/,
  });
});

t.test('reportStatus() answers 50 where the kernel lacks something', async (t) => {
  const node = new FakePluginNode();
  node.missingModules = ['the kernel lacks the module nft_redir'];
  t.match(errorOf(await callPlugin(node, 'STATUS')), { code: 50, msg: /nft_redir/ });
});
