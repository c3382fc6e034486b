// A service without its endpoints gives every name and port the same meaning as with them.
import t from 'tap';
import { parseServiceKey } from '../../src/mesh/names.ts';
import { outlineService, viewOutline } from '../../src/mesh/service-outline.ts';
import { buildServiceView } from '../../src/mesh/service-view.ts';
import { routeShape } from '../../src/xds/virtual-hosts.ts';
import { type EndpointSpec, makeIp, makeListing } from '../support/services.ts';

const ENDPOINTS: Readonly<Record<string, readonly EndpointSpec[]>> = {
  mixed: [{ ip: '10.1.2.3', primary: 8080, ports: { 8080: 'http', 9090: 'http', 9000: 'tcp', 5432: 'tcp' } }],
  'two primaries': [
    { ip: '10.1.2.3', primary: 8080, ports: { 8080: 'http', 9090: 'http' } },
    { ip: '10.1.2.4', primary: 9090, ports: { 8080: 'http', 9090: 'http' } },
    { ip: '10.1.2.5', primary: 9090, ports: { 9090: 'http' } },
  ],
  'pure TCP': [{ ip: '10.1.2.4', primary: 5432, ports: { 5432: 'tcp' } }],
};

t.test('viewOutline() gives every name the meaning that the whole view gives it', (t) => {
  const key = parseServiceKey('demo/shop');
  if (key === undefined) throw new Error('no key');
  const options = { domain: 'aether.internal', vips: ['fd96::50', '10.96.0.50'].map(makeIp) };
  for (const [title, specs] of Object.entries(ENDPOINTS)) {
    const listing = makeListing(specs);
    const whole = buildServiceView(key, listing, options);
    const outline = outlineService(listing);
    if (outline === undefined) throw new Error('no outline');
    const view = viewOutline(key, outline, options);
    t.strictSame(routeShape(view), routeShape(whole), title);
    t.strictSame(view.vips, whole.vips);
    t.strictSame(
      [...view.http, ...view.tcp].flatMap(({ endpoints }) => endpoints),
      [],
    );
  }
  t.equal(outlineService({ http: [], tcp: [] }), undefined);
  t.end();
});
