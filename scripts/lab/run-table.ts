// Dials the resolution table from the lab's clients, and prints what was seen as a table.
import type { Lab, Sighting } from './lab.ts';
import { type CaptureMode, describeReport, type ResolutionRow, resolutionRows } from './resolution-table.ts';
import { formatTable } from './text-table.ts';

export interface RowResult {
  readonly mode: CaptureMode;
  readonly family: 4 | 6;
  readonly row: ResolutionRow;
  readonly sighting: Sighting;
  /** Why it does not agree; empty: it does. */
  readonly disagreements: readonly string[];
}

const CLIENT_OF: Readonly<Record<CaptureMode, string>> = { 'redirect-all': 'client', scoped: 'scoped' };
const DIAL_TIMEOUT_MS = 4000;

/** Dials one row. */
export async function runRow(
  lab: Lab,
  row: ResolutionRow,
  where: { readonly mode: CaptureMode; readonly family: 4 | 6 },
): Promise<RowResult> {
  const dial = { ...row.dial, family: where.family, timeoutMs: DIAL_TIMEOUT_MS };
  const sighting = await lab.dial(CLIENT_OF[where.mode], dial);
  return { ...where, row, sighting, disagreements: findDisagreements(row, sighting) };
}

/** Dials every row of a mode in both families, IPv4 first. */
export async function runRows(lab: Lab, mode: CaptureMode): Promise<readonly RowResult[]> {
  const results: RowResult[] = [];
  for (const row of resolutionRows(mode)) {
    for (const family of [4, 6] as const) results.push(await runRow(lab, row, { mode, family }));
  }
  return results;
}

/** A table with one line a row where both families agree, else one a family. */
export function formatResults(results: readonly RowResult[]): string {
  const lines = [['', 'spelling', 'expected', 'seen', 'chain', 'time (v4 / v6)']];
  for (const row of new Set(results.map((result) => result.row))) {
    const both = results.filter((result) => result.row === row);
    const seen = new Set(both.map((result) => `${describeReport(result.sighting.report)}|${chainText(result)}`));
    const groups = seen.size === 1 && both.every(agrees) ? [both] : both.map((result) => [result]);
    for (const group of groups) lines.push(formatLine(group));
  }
  return formatTable(lines);
}

function formatLine(group: readonly RowResult[]): string[] {
  const [first] = group;
  if (first === undefined) return [];
  const family = group.length === 1 ? ` [v${first.family}]` : '';
  return [
    group.every(agrees) ? 'ok' : 'FAIL',
    `${first.row.spelling}${family}`,
    first.row.expected,
    [describeReport(first.sighting.report), ...first.disagreements].join('; '),
    chainText(first),
    `${group.map((result) => result.sighting.report.ms).join(' / ')} ms`,
  ];
}

function agrees(result: RowResult): boolean {
  return result.disagreements.length === 0;
}

function chainText(result: RowResult): string {
  const { chains } = result.sighting;
  return chains.length === 0 ? '(kernel)' : chains.join(' > ');
}

function findDisagreements(row: ResolutionRow, sighting: Sighting): readonly string[] {
  const { report, chains } = sighting;
  const found: string[] = [];
  if (!row.agrees(report)) found.push(`not ${row.expected}`);
  if (report.ms > row.withinMs) found.push(`took more than ${row.withinMs} ms`);
  if (row.chains !== undefined && chains.join() !== row.chains.join()) {
    found.push(`chains not ${row.chains.join() || 'none'}`);
  }
  return found;
}
