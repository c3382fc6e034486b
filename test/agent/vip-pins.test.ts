// The text of the `--services` file, and every problem in it at once; the file itself is
// test/adapters/store/services-file.test.ts.
import t from 'tap';
import { parseVipPins } from '../../src/agent/vip-pins.ts';
import { formatProblem } from '../../src/core/problems.ts';

t.test('parseVipPins() reads fixed addresses, sorted', (t) => {
  const parsed = parseVipPins('{"services":{"demo/shop":["fd96::0050","10.96.0.50"],"demo/db":["10.96.0.60"]}}');
  t.strictSame(
    [...(parsed.kind === 'value' ? parsed.value : [])].map(([key, own]) => [key, own.map((address) => address.text)]),
    [
      ['demo/shop', ['10.96.0.50', 'fd96::50']],
      ['demo/db', ['10.96.0.60']],
    ],
  );
  t.end();
});

t.test('parseVipPins() rejects, with every problem', (t) => {
  const cases: readonly [string, string, readonly RegExp[]][] = [
    ['text that is no JSON', '{"services":', [/^must be JSON/]],
    ['a list', '[]', [/^must be an object/]],
    ['another key and no services', '{"service":{}}', [/^service: unknown key/, /^services: must be an object/]],
    [
      'what is wrong in each entry, at once',
      '{"services":{"shop":["10.96.0.50"],"demo/db":[],"demo/a":["nope",7,"127.0.0.1"],"demo/b":["10.96.0.50"],"demo/c":"x"}}',
      [
        /^services\["shop"\]: the key must be/,
        /^services\["demo\/db"\]: must be a list/,
        /^services\["demo\/a"\]\[0\]: must be an IP address, got "nope"/,
        /^services\["demo\/a"\]\[1\]: must be an IP address, got 7/,
        /^services\["demo\/a"\]\[2\]: must be an address that a service can have/,
        /^services\["demo\/b"\]\[0\]: 10\.96\.0\.50 is fixed already for "shop"/,
        /^services\["demo\/c"\]: must be a list/,
      ],
    ],
    ['one address in two spellings', '{"services":{"demo/a":["fd96::1","fd96:0::1"]}}', [/fd96::1 is fixed already/]],
    ['an upper-case name', '{"services":{"Demo/a":["fd96::1"]}}', [/both DNS labels/]],
  ];
  for (const [name, text, want] of cases) {
    const parsed = parseVipPins(text);
    t.match(parsed.kind === 'problems' ? parsed.problems.map(formatProblem) : [], want, name);
    t.equal(parsed.kind === 'problems' ? parsed.problems.length : 0, want.length, name);
  }
  t.end();
});
