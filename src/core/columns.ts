// Tables for people: aligned columns, two blanks between them, nothing behind the last.
import { onOneLine } from './one-line.ts';

/** `header` above the rows; without rows the header alone. */
export function formatColumns(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [header, ...rows.map((row) => row.map(onOneLine))];
  const widths = header.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)));
  const format = (line: readonly string[]): string =>
    line
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd();
  return lines.map((line) => `${format(line)}\n`).join('');
}
