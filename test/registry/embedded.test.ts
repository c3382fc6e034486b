// The embedded registry: the contract of every backend, and how it coalesces changes.
import t from 'tap';
import { EmbeddedRegistry } from '../../src/registry/embedded.ts';
import { makeEndpoint } from '../support/services.ts';
import { runRegistryContract } from './contract-suite.ts';

const ENDPOINT = makeEndpoint({ ip: '10.1.2.3', primary: 8080, ports: { 8080: 'http' } });
const SHOP = { namespace: 'demo', serviceAccount: 'shop' };

runRegistryContract('EmbeddedRegistry', async () => ({ registry: new EmbeddedRegistry(), close: async () => {} }));

t.test('EmbeddedRegistry.watch() reports writes of one turn in one call', async (t) => {
  const registry = new EmbeddedRegistry();
  const calls: string[][] = [];
  using _watch = registry.watch((keys) => calls.push([...keys]));
  await registry.registerEndpoint(SHOP, 'http', ENDPOINT);
  await registry.registerEndpoint(SHOP, 'tcp', ENDPOINT);
  await registry.registerEndpoint({ ...SHOP, namespace: 'other' }, 'tcp', ENDPOINT);
  await new Promise(setImmediate);
  t.strictSame(calls, [['demo/shop', 'other/shop']]);
});

t.test('EmbeddedRegistry.registerEndpoint() of the same content again is no change', async (t) => {
  const registry = new EmbeddedRegistry();
  await registry.registerEndpoint(SHOP, 'http', ENDPOINT);
  await new Promise(setImmediate);
  const calls: string[][] = [];
  using _watch = registry.watch((keys) => calls.push([...keys]));
  await registry.registerEndpoint(SHOP, 'http', ENDPOINT);
  await new Promise(setImmediate);
  t.strictSame(calls, []);
  await registry.registerEndpoint(SHOP, 'http', { ...ENDPOINT, portProtocols: new Map([[8080, 'tcp']]) });
  await new Promise(setImmediate);
  t.strictSame(calls, [['demo/shop']]);
});
