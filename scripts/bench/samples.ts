// Samples of one thing measured again and again, and what is said of them.

/** The smallest sample that `share` of all do not exceed: 0.5 is the median. NaN without samples. */
export function at(samples: readonly number[], share: number): number {
  const sorted = [...samples].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN;
}

export const median = (samples: readonly number[]): number => at(samples, 0.5);

export const mean = (samples: readonly number[]): number =>
  samples.reduce((sum, each) => sum + each, 0) / samples.length;

/** `–` for what was not measured. */
export function show(value: number, digits = 2): string {
  return Number.isFinite(value) ? value.toFixed(digits) : '–';
}

/** A Markdown table; the first row is its head. */
export function markdownTable(rows: readonly (readonly string[])[]): string {
  const [head = [], ...body] = rows;
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map((_, i) => (i === 0 ? '---' : '---:'))), ...body.map(line)].join('\n');
}
