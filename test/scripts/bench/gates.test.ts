// What counts as met, and that a figure is made of the right calls.
import t from 'tap';
import { formatGates, judge, listGates, type Measured } from '../../../scripts/bench/gates.ts';
import type { Burst } from '../../../scripts/bench/measure-bursts.ts';
import type { CallSamples } from '../../../scripts/bench/measure-calls.ts';
import type { BenchPlugin } from '../../../scripts/bench/plugins.ts';

const samples = (wallMs: number[], cpuMs = 1, agentMs: number[] = []): CallSamples => ({
  ...{ wallMs, agentMs, failed: 0 },
  cpuMs: wallMs.map(() => cpuMs),
  peakMb: wallMs.map(() => 1),
});

function burst(name: string, addMs: readonly number[], width = 50): Burst {
  const plugin: BenchPlugin = { name, program: '/x', verbs: [], loAtDel: 'up', env: {}, config: () => ({}) };
  const lists = { deleteMs: [], addTotalMs: [], deleteTotalMs: [], cpuMs: [], agentMs: [] };
  return { plugin, pods: 100, width, addMs: [...addMs], ...lists, agentMb: 0, failed: 0 };
}

const MEASURED: Measured = {
  calls: new Map([
    ['no-op (Go)|ADD', samples([3.9, 4, 90], 4)],
    ['no-op (Go)|DEL', samples([4])],
    ['no-op (Go)|VERSION', samples([2])],
    ['no-op (Go)|STATUS', samples([2])],
    ['relay, scoped|ADD', samples([1, 1.2, 6], 0.5, [0.4, 0.4, 1.3])],
    ['relay, scoped|DEL', samples([2])],
    ['relay, scoped|VERSION', samples([0.5])],
    ['relay, scoped|STATUS', samples([0.6])],
    ['relay, redirect-all|ADD', samples([1.5])],
    ['relay, scoped, `lo` down at DEL|DEL', samples([1])],
    ['full file, asking the agent|ADD', samples([30])],
    ['full file, asking the agent|VERSION', samples([22])],
    ['full file, by gRPC|ADD', samples([40])],
    ['node -e 0|START', samples([20])],
  ]),
  systemCalls: new Map([
    ['relay, scoped|ADD', { all: 16, execs: 1 }],
    ['relay, scoped|DEL', { all: 99, execs: 9 }],
  ]),
  bursts: [burst('relay, scoped', [1], 10), burst('relay, scoped', [1, 60]), burst('tuning (Go)', [200, 100])],
  crowdRatio: 1.02,
  sandboxRatio: Number.NaN,
  loopDelayMs: 12.5,
  processesLeft: 0,
};

t.test('listGates() takes every figure from its calls', async (t) => {
  const found = listGates(MEASURED).map(({ figure, value }) => [figure, Number(value.toFixed(3))]);
  t.strictSame(Object.fromEntries(found), {
    'ADD p50 / no-op ADD p50': 0.3,
    'ADD p95 / no-op ADD p50': 1.5,
    'ADD redirect-all / scoped': 1.25,
    'CPU of an ADD, relay and agent / no-op': 0.3,
    'DEL p50, `lo` up / no-op DEL p50': 0.5,
    'DEL p50, `lo` down / no-op DEL p50': 0.25,
    'VERSION p50 / no-op VERSION p50': 0.25,
    'STATUS p50 / no-op STATUS p50': 0.3,
    'ADD with 1 500 processes on the node / with 80': 1.02,
    "burst of 100, 50 at a time: ADD p99 / tuning's": 0.3,
    "the agent's event loop, ms late at most 99 of 100 times": 12.5,
    'execs of an ADD': 1,
    'system calls of the process started for an ADD': 16,
    'processes left after DEL': 0,
    'RunPodSandbox with us / without': Number.NaN,
    'full file: VERSION / node -e 0': 1.1,
    'full file, asking the agent: ADD / node -e 0': 1.5,
    'full file, by gRPC: ADD / node -e 0': 2,
  });
});

for (const [value, verdict] of [
  [0.4, 'aim met'],
  [0.404, 'aim met'],
  [0.41, 'gate met'],
  [0.7, 'gate met'],
  [0.71, 'not met'],
  [Number.NaN, 'not measured'],
] as const) {
  t.test(`judge() finds ${value} of gate 0.7, aim 0.4 ${verdict}`, async (t) => {
    t.equal(judge({ figure: 'x', value, gate: 0.7, aim: 0.4 }), verdict);
  });
}

t.test('judge() knows an aim without a gate and a gate without an aim', async (t) => {
  t.equal(judge({ figure: 'x', value: 1.9, aim: 1.8 }), 'not met');
  t.equal(judge({ figure: 'x', value: 1, gate: 1.03 }), 'gate met');
});

t.test('formatGates() has a row a figure', async (t) => {
  t.equal(
    formatGates([
      { figure: 'a', value: 0.5, gate: 0.7, aim: 0.4 },
      { figure: 'b', value: 1, aim: 1 },
    ]),
    [
      '| figure | this run | gate | aim |  |',
      '| --- | ---: | ---: | ---: | ---: |',
      '| a | 0.50 | ≤ 0.7 | ≤ 0.4 | gate met |',
      '| b | 1 | – | ≤ 1 | aim met |',
    ].join('\n'),
  );
});
