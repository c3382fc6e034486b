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
