// Every form of `--access-log`; undefined is what is refused.
import t from 'tap';
import { parseAccessLog } from '../../src/commands/access-log-setting.ts';

for (const [text, expected] of [
  ['off', 'off'],
  ['stdout', { kind: 'stdout' }],
  ['file:/var/log/a.log', { kind: 'file', path: '/var/log/a.log' }],
  ['file:a.log', undefined],
  ['file:', undefined],
  ['otlp:10.0.0.5:4317', { kind: 'otlp', address: { kind: 'ip', host: '10.0.0.5', port: 4317 } }],
  ['otlp:[fd00::5]:4317', { kind: 'otlp', address: { kind: 'ip', host: 'fd00::5', port: 4317 } }],
  ['otlp:otel.obs.svc:4317', { kind: 'otlp', address: { kind: 'name', host: 'otel.obs.svc', port: 4317 } }],
  ['otlp:unix:/run/otlp.sock', { kind: 'otlp', address: { kind: 'unix', path: '/run/otlp.sock' } }],
  [`otlp:unix:/${'x'.repeat(107)}`, undefined],
  ['otlp:otel', undefined],
  ['otlp:otel:0', undefined],
  ['otlp:otel:70000', undefined],
  ['otlp:10.0.0.300:4317', undefined],
  ['otlp:10.0.0.5:0', undefined],
  ['otlp:-x:1', undefined],
  ['otlp:', undefined],
  ['syslog', undefined],
  ['', undefined],
] as const) {
  t.test(`parseAccessLog() ${expected === undefined ? 'refuses' : 'reads'} ${JSON.stringify(text)}`, (t) => {
    t.strictSame(parseAccessLog(text), expected);
    t.end();
  });
}
