// A program for test/e2e/sandbox.test.ts: pods without the mesh and Envoy without an agent; says `ready` and waits to be ended.
import { setTimeout as sleep } from 'node:timers/promises';
import { CniRuntime } from '../cni-runtime.ts';
import { startEnvoy } from '../envoy.ts';
import { LAB_PODS } from '../lab.ts';
import { podNetwork, prepareNode } from '../network.ts';
import { PLUGIN_DIRS } from '../places.ts';
import { startPod } from '../pods.ts';
import { enterSandbox } from '../sandbox.ts';

const { dir } = await enterSandbox(import.meta.filename);
prepareNode();
await startEnvoy({ dir, nodeName: 'lab-node', xdsSocket: `${dir}/nobody.sock` });
const network = podNetwork(`${dir}/ipam`, []);
for (const spec of LAB_PODS.slice(0, 2)) await startPod(spec, { dir, runtime: new CniRuntime(PLUGIN_DIRS), network });
process.stdout.write('ready\n');
await sleep(60_000);
