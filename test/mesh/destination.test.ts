// The destination of an explanation as a client would write it, and the words for what is none. No name is looked up.
import t from 'tap';
import { parseDestination } from '../../src/mesh/destination.ts';

function show(text: string): string {
  const destination = parseDestination(text);
  if ('problem' in destination) return destination.problem;
  const { kind, host, port, address, authority } = destination;
  return [kind, host, port, address === undefined ? '' : `IPv${address.family}`, authority ?? '-'].join(' ');
}

const NAME = 'shop.demo.aether.internal';
const CASES: readonly (readonly [text: string, want: string])[] = [
  [`http://${NAME}/`, `http ${NAME} 80  ${NAME}`],
  [`http://${NAME}`, `http ${NAME} 80  ${NAME}`],
  [`HTTP://${NAME}/path?a=b#c`, `http ${NAME} 80  ${NAME}`],
  [`http://${NAME}?a=b`, `http ${NAME} 80  ${NAME}`],
  [`http://${NAME}:9090/x`, `http ${NAME} 9090  ${NAME}:9090`],
  // Clients leave the port of the scheme out of Host.
  [`http://${NAME}:80/`, `http ${NAME} 80  ${NAME}`],
  [
    `http://Shop.Demo.Aether.Internal.:18081/`,
    'http Shop.Demo.Aether.Internal. 18081  Shop.Demo.Aether.Internal.:18081',
  ],
  ['http://10.96.0.50/', 'http 10.96.0.50 80 IPv4 10.96.0.50'],
  ['http://[fd96::50]:8080/', 'http fd96::50 8080 IPv6 [fd96::50]:8080'],
  [`https://${NAME}/`, `https ${NAME} 443  -`],
  [`https://${NAME}:8443`, `https ${NAME} 8443  -`],
  [`${NAME}:9000`, `tcp ${NAME} 9000  -`],
  ['10.96.0.50:18082', 'tcp 10.96.0.50 18082 IPv4 -'],
  ['[fd96::50]:5432', 'tcp fd96::50 5432 IPv6 -'],
  ['localhost:18001', 'tcp localhost 18001  -'],
  ['', 'the name is missing'],
  [NAME, 'it names no port; raw TCP needs one, and HTTP is written http://name/'],
  ['10.96.0.50', 'it names no port; raw TCP needs one, and HTTP is written http://name/'],
  [`${NAME}:`, 'the port must be a number from 1 to 65535, not ""'],
  [`${NAME}:0`, 'the port must be a number from 1 to 65535, not "0"'],
  [`${NAME}:65536`, 'the port must be a number from 1 to 65535, not "65536"'],
  [`${NAME}:http`, 'the port must be a number from 1 to 65535, not "http"'],
  [`http://${NAME}:x/`, 'the port must be a number from 1 to 65535, not "x"'],
  ['fd96::50', 'an IPv6 address needs brackets: [fd00::1]:9000'],
  ['http://fd96::50/', 'an IPv6 address needs brackets: [fd00::1]:9000'],
  ['[10.96.0.50]:80', 'brackets are for IPv6 addresses'],
  ['[fd96::zz]:80', '"fd96::zz" is neither a name nor an address'],
  ['fd96::50:x', 'an IPv6 address needs brackets: [fd00::1]:9000'],
  ['[fd96::50', 'it is neither a name nor an address'],
  ['[fd96::50]x:80', 'it is neither a name nor an address'],
  ['tcp://shop:80', 'unknown scheme "tcp"'],
  [`http://user@${NAME}/`, 'a user name has no place in it'],
  ['http:///x', 'the name is missing'],
  [':80', 'the name is missing'],
  ['demo/shop:80', '"demo/shop" is neither a name nor an address'],
  ['a b:80', '"a b" is neither a name nor an address'],
  ['-x:80', '"-x" is neither a name nor an address'],
  ['a..b:80', '"a..b" is neither a name nor an address'],
  [`${'a'.repeat(64)}:80`, `"${'a'.repeat(64)}" is neither a name nor an address`],
];

t.test('parseDestination() reads what a client writes', (t) => {
  for (const [text, want] of CASES) {
    t.test(text === '' ? '(empty)' : text, (t) => {
      t.equal(show(text), want);
      t.end();
    });
  }
  t.end();
});
