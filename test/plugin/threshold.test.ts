// ADD and DEL where several steps are one: the same is left as after the single steps, and nothing after a failure.
import t from 'tap';
import { AgentError, NativeError, NetnsError } from '../../src/core/errors.ts';
import type { ContainerId, NetnsPath } from '../../src/core/identifiers.ts';
import type { Entered, NodeDeps, Threshold } from '../../src/plugin/deps.ts';
import { FakePluginNode } from '../support/fake-plugin-node.ts';
import { callPlugin } from '../support/plugin-call.ts';

/** A node that does at one stroke what it can; the base does the work, so that failures are the same. */
class ThresholdNode extends FakePluginNode {
  readonly strokes: string[] = [];
  readonly takesRules: boolean[] = [];
  /** Whether somebody's tables are in every namespace. */
  isTaken = false;
  /** What leave() says. */
  isLeft = true;
  leaveFailure: Error | undefined;
  constructor() {
    super();
    const steps = this.deps;
    this.deps = { ...steps, threshold: this.#makeThreshold(steps), pods: this.#makePods(steps) };
  }

  #makeThreshold({ namespaces, attachments, rules }: NodeDeps): Threshold {
    return {
      enter: async (netns, { note, noteDir, pinDir, tables }) => {
        this.strokes.push('enter');
        await namespaces.assertUsable(netns);
        const { containerId } = note;
        if (this.notes.has(containerId)) return undefined;
        await attachments.claim(noteDir, note);
        try {
          const path = pinDir === undefined ? netns : await namespaces.pin(netns, { pinDir, containerId });
          const put = async (): Promise<boolean> => {
            for (const table of tables) await rules.replaceTable(path, table);
            return true;
          };
          const hasRules = tables.length > 0 && !this.isTaken && (await put().catch(() => false));
          return { identity: '1:2', hasRules, isSettled: true };
        } catch (error) {
          await attachments.release(noteDir, containerId);
          throw error;
        }
      },
      leave: async (paths, { tables, noteDir, pinDir, containerId }) => {
        this.strokes.push(`leave ${paths}`);
        let netns: NetnsPath | undefined;
        for (const path of paths)
          if (netns === undefined && (await namespaces.identify(path)) !== undefined) netns = path;
        if (this.leaveFailure !== undefined) throw this.leaveFailure;
        if (!this.isLeft) return false;
        for (const name of tables) if (netns !== undefined) await rules.destroyTable(netns, name);
        await namespaces.unpin({ pinDir, containerId });
        await attachments.release(noteDir, containerId);
        return true;
      },
    };
  }

  #makePods({ pods, rules }: NodeDeps): NodeDeps['pods'] {
    return {
      addPod: async (pod, options) => {
        let isThere = false;
        const enter = async (): Promise<Entered> => {
          const entered = (await options.enter?.(options.rules === undefined ? [] : [options.rules])) ?? NOTHING;
          isThere = entered.hasRules;
          return entered;
        };
        const answer = await pods.addPod(pod, { ...options, enter });
        if (answer.kind === 'ignored' || options.rules === undefined) return answer;
        if (isThere) return { ...answer, hasRules: true };
        // A pin's path, or the runtime's own.
        await rules.replaceTable(pod.networkNamespace as NetnsPath, options.rules);
        return { ...answer, hasRules: true };
      },
      removePod: async (pod, options) => {
        this.takesRules.push(options.takeRules !== undefined);
        await pods.removePod(pod, options);
        await options.takeRules?.();
      },
    };
  }
}

const NOTHING: Entered = { identity: undefined, hasRules: false, isSettled: false };
const EMPTY = { pins: [], tables: [], records: [], queue: [], notes: [] };

t.test('ADD at one stroke leaves what ADD in steps leaves; DEL nothing', async (t) => {
  const node = new ThresholdNode();
  const plain = new FakePluginNode();
  for (const each of [node, plain]) t.equal((await callPlugin(each, 'ADD')).exitCode, 0);
  t.strictSame(node.state, plain.state);
  t.strictSame([...node.tables], [...plain.tables]);
  t.equal(node.calls.filter((name) => name === 'replaceTable').length, 1, 'the rules are not put there twice');
  t.equal((await callPlugin(node, 'DEL')).exitCode, 0);
  t.strictSame(node.state, EMPTY);
  t.strictSame(node.strokes, ['enter', 'leave /pins/c1,/run/netns/a']);
  t.strictSame(node.takesRules, [true]);
});

t.test('ADD at one stroke where other tables are there', async (t) => {
  const node = new ThresholdNode();
  node.isTaken = true;
  const plain = new FakePluginNode();
  for (const each of [node, plain]) t.equal((await callPlugin(each, 'ADD')).exitCode, 0);
  t.strictSame([...node.tables], [...plain.tables]);
  const refused = new ThresholdNode();
  refused.isTaken = true;
  refused.tables.set('/run/netns/a inet aether', 'of another');
  refused.failures.set('addPod', new AgentError('rejected', 'adding the pod: of another'));
  t.equal((await callPlugin(refused, 'ADD')).exitCode, 1);
  t.strictSame([...refused.tables.values()], ['of another'], 'what another put there stays');
});

t.test('ADD of a container that has a note takes the single steps', async (t) => {
  const node = new ThresholdNode();
  await callPlugin(node, 'ADD');
  const { state } = node;
  t.equal((await callPlugin(node, 'ADD')).exitCode, 0);
  t.strictSame(node.state, state);
  node.notes.set('c1', { containerId: 'c1' as ContainerId, ifname: 'net1', network: 'k8s' });
  t.match(await callPlugin(node, 'ADD'), { exitCode: 1, stdout: /one interface is all it can have/ });
});

const FAILURES = ['assertUsable', 'claim', 'pin', 'addPod', 'replaceTable'] as const;
for (const effect of FAILURES) {
  t.test(`ADD at one stroke leaves nothing when ${effect} fails`, async (t) => {
    const node = new ThresholdNode();
    node.failures.set(effect, new NetnsError('missing', '/run/netns/a', 'working: it does not exist'));
    t.equal((await callPlugin(node, 'ADD')).exitCode, 1);
    node.failures.clear();
    t.strictSame({ ...node.state, queue: [] }, EMPTY);
  });
}

t.test('DEL that is not done at one stroke is done in steps', async (t) => {
  const node = new ThresholdNode();
  await callPlugin(node, 'ADD');
  node.isLeft = false;
  t.equal((await callPlugin(node, 'DEL')).exitCode, 0);
  t.strictSame(node.state, EMPTY);
});

t.test('DEL goes on in steps when the stroke itself fails', async (t) => {
  const node = new ThresholdNode();
  await callPlugin(node, 'ADD');
  node.leaveFailure = new NativeError('ending an attachment: no thread');
  t.match(await callPlugin(node, 'DEL'), { exitCode: 0, stdout: '', stderr: /no thread/ });
  t.strictSame(node.state, EMPTY);
});

t.test('DEL with a pin that stays takes the single steps', async (t) => {
  const node = new ThresholdNode();
  await callPlugin(node, 'ADD');
  t.equal((await callPlugin(node, 'DEL', { config: { netns_unpin_delay_seconds: 5 } })).exitCode, 0);
  t.strictSame(node.strokes, ['enter']);
  t.strictSame(node.takesRules, [false]);
  t.strictSame(node.state['tables'], []);
});

t.test('DEL with neither namespace nor pins leaves the agent’s table to the agent', async (t) => {
  const node = new ThresholdNode();
  const config = { netns_pin_disabled: true };
  await callPlugin(node, 'ADD', { config });
  t.equal((await callPlugin(node, 'DEL', { config, env: { CNI_NETNS: '' } })).exitCode, 0);
  t.strictSame(node.takesRules, [false]);
  t.strictSame([node.state['records'], node.state['notes']], [[], []]);
});
