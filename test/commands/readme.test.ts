// The README's tables say what the program does: its settings table is the program's own, its codes are those we print.
import { readFileSync, writeFileSync } from 'node:fs';
import t from 'tap';
import { AGENT_SETTINGS } from '../../src/commands/agent-settings.ts';
import { type SettingRow, variableOf } from '../../src/commands/setting-source.ts';
import * as constants from '../../src/mesh/constants.ts';

const PATH = new URL('../../README.md', import.meta.url);
const BEGIN = '<!-- agent settings -->\n';
const END = '<!-- end of agent settings -->';

function formatSettings(rows: readonly SettingRow[]): string {
  const lines = rows.map((row) => {
    const flag = row.value === undefined ? `--${row.name}` : `--${row.name} ${row.value}`;
    return `| \`${flag.replaceAll('|', '\\|')}\` | ${row.fallback ?? 'none'} | ${row.help} |`;
  });
  return ['| flag | default | meaning |', '|---|---|---|', ...lines, ''].join('\n');
}

t.test('README.md lists every setting of the agent as the program has it', (t) => {
  const text = readFileSync(PATH, 'utf8');
  const start = text.indexOf(BEGIN) + BEGIN.length;
  const end = text.indexOf(END);
  t.ok(start >= BEGIN.length && end > start, 'the table is there');
  const wanted = formatSettings(AGENT_SETTINGS);
  if (process.env['UPDATE_GOLDEN'] === '1') writeFileSync(PATH, text.slice(0, start) + wanted + text.slice(end));
  else t.equal(text.slice(start, end), wanted);
  t.equal(variableOf('cni-socket'), 'AETHER_CNI_SOCKET', 'and its variables are spelt as the README says');
  t.end();
});

t.test('README.md names every annotation that a pod may have', async (t) => {
  const text = readFileSync(PATH, 'utf8');
  const annotations = Object.entries(constants).filter(([name]) => name.startsWith('ANNOTATION_'));
  t.ok(annotations.length > 10);
  for (const [name, value] of annotations) t.ok(text.includes(`\`${value}`), name);
});
