// The bootstrap: what stands in it, and that the real Envoy accepts it.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { envoyPath } from '../../scripts/lab/places.ts';
import { type BootstrapOptions, buildBootstrap } from '../../src/xds/bootstrap.ts';

const FULL: BootstrapOptions = {
  nodeName: 'node-1',
  clusterName: 'east',
  region: 'r1',
  zone: 'z1',
  xdsSocket: '/run/aether/xds.sock',
  adminSocket: '/run/aether/envoy-admin.sock',
};

t.test('buildBootstrap() names the node as the agent knows it', (t) => {
  t.strictSame(buildBootstrap(FULL)['node'], {
    id: 'node-1',
    cluster: 'east',
    locality: { region: 'r1', zone: 'z1' },
  });
  t.end();
});

t.test('buildBootstrap() leaves out what is not given', (t) => {
  const bootstrap = buildBootstrap({ nodeName: 'node-1', xdsSocket: '/run/aether/xds.sock' });
  t.strictSame(bootstrap['node'], { id: 'node-1', cluster: 'aether' });
  t.notOk('admin' in bootstrap);
  t.end();
});

t.test('buildBootstrap() reconnects to the agent within a second', (t) => {
  t.match(buildBootstrap(FULL), {
    dynamic_resources: {
      ads_config: {
        api_type: 'DELTA_GRPC',
        grpc_services: [
          { envoy_grpc: { retry_policy: { retry_back_off: { base_interval: '0.1s', max_interval: '1s' } } } },
        ],
      },
    },
  });
  t.end();
});

t.test('buildBootstrap() keeps of the health clusters the gauges that the gateway reads, and nothing else', (t) => {
  const stats = buildBootstrap(FULL)['stats_config'] as {
    readonly stats_matcher: { readonly exclusion_list: { readonly patterns: readonly Record<string, unknown>[] } };
  }; // written by buildBootstrap
  const regexes = stats.stats_matcher.exclusion_list.patterns.flatMap(({ safe_regex: safe }) =>
    typeof safe === 'object' && safe !== null && 'regex' in safe ? [new RegExp(String(safe.regex))] : [],
  );
  const isKept = (stat: string) => !regexes.some((regex) => regex.test(`cluster.health_demo_a.b-0.${stat}`));
  for (const stat of ['membership_healthy', 'membership_degraded', 'membership_total']) t.ok(isKept(stat), stat);
  for (const stat of ['upstream_cx_total', 'membership_change', 'max_host_weight', 'health_check.attempt', 'version']) {
    t.notOk(isKept(stat), stat);
  }
  t.end();
});

for (const [name, options] of [
  ['everything given', FULL],
  ['the least', { nodeName: 'node-1', xdsSocket: '/run/aether/xds.sock' }],
] as const) {
  t.test(`buildBootstrap() is accepted by Envoy: ${name}`, (t) => {
    const dir = mkdtempSync('/tmp/ae-boot-');
    t.teardown(() => rmSync(dir, { recursive: true }));
    const file = join(dir, 'bootstrap.json');
    writeFileSync(file, JSON.stringify(buildBootstrap(options)));
    const output = execFileSync(envoyPath(), ['--mode', 'validate', '-c', file], { encoding: 'utf8' });
    t.match(output, /OK/);
    t.end();
  });
}
