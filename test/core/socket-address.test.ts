// Address and port as text, with brackets around IPv6 both ways.
import t from 'tap';
import { formatSocketAddress, parseSocketAddress } from '../../src/core/socket-address.ts';

t.test('parseSocketAddress() reads, formatSocketAddress() prints, brackets around IPv6 (K075)', (t) => {
  const cases: readonly [string, number | undefined, string | undefined][] = [
    ['10.0.0.1:53', undefined, '10.0.0.1:53'],
    ['[fd00::0001]:53', undefined, '[fd00::1]:53'],
    ['127.0.0.1:0', undefined, '127.0.0.1:0'],
    ['10.0.0.1', 53, '10.0.0.1:53'],
    ['fd00::1', 53, '[fd00::1]:53'],
    ['10.0.0.1:5353', 53, '10.0.0.1:5353'],
    ['10.0.0.1', undefined, undefined],
    ['fd00::1:53', undefined, undefined],
    ['[10.0.0.1]:53', undefined, undefined],
    ['10.0.0.1:70000', undefined, undefined],
    ['10.0.0.1:', undefined, undefined],
    ['localhost:53', undefined, undefined],
    ['', 53, undefined],
  ];
  for (const [text, port, want] of cases) {
    const parsed = parseSocketAddress(text, port);
    t.equal(parsed === undefined ? undefined : formatSocketAddress(parsed), want, `${text} ${port ?? ''}`);
  }
  t.end();
});
