// The constants and layouts that TypeScript states, against a C program that prints what the real headers say.
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import t from 'tap';
import { ABI, NEWER_THAN_HEADERS } from '../../../src/adapters/kernel/abi.ts';
import { buildNative } from '../../support/native.ts';

t.test('ABI holds exactly what the headers say', (t) => {
  const printed: unknown = JSON.parse(execFileSync(join(buildNative(), 'abi-print'), { encoding: 'utf8' }));
  t.strictSame(ABI, printed);
  t.end();
});

t.test('NEWER_THAN_HEADERS holds nothing that the headers know', (t) => {
  for (const name of Object.keys(NEWER_THAN_HEADERS)) t.notOk(name in ABI, name);
  t.end();
});
