// What a check of the node found, one thing a finding, and how findings are shown to people and to machines.
import { onOneLine } from './one-line.ts';

export type FindingStatus = 'ok' | 'warn' | 'fail';

/** `subject`: what was looked at, `demo/shop-0`, `/run/aether/cni.sock`. `remedy`: what to do; '' where there is nothing to do. */
export interface Finding {
  readonly status: FindingStatus;
  readonly area: string;
  readonly subject: string;
  readonly message: string;
  readonly remedy: string;
}

/** A sentence on what is wrong, and one on what to do about it. */
export interface Trouble {
  readonly message: string;
  readonly remedy: string;
}

/** Collects the findings of one area, in order. */
export class FindingList {
  readonly #area: string;
  readonly #findings: Finding[] = [];

  constructor(area: string) {
    this.#area = area;
  }

  get all(): readonly Finding[] {
    return [...this.#findings];
  }

  ok(subject: string, message: string): void {
    this.#findings.push({ status: 'ok', area: this.#area, subject, message, remedy: '' });
  }

  warn(subject: string, { message, remedy }: Trouble): void {
    this.#findings.push({ status: 'warn', area: this.#area, subject, message, remedy });
  }

  fail(subject: string, { message, remedy }: Trouble): void {
    this.#findings.push({ status: 'fail', area: this.#area, subject, message, remedy });
  }
}

/** Nothing failed; a warning is no failure. */
export function isFine(findings: readonly Finding[]): boolean {
  return findings.every(({ status }) => status !== 'fail');
}

/**
 * Of each of these subjects whose findings are all fine one finding, of area `pod`, in the place of the first; it says what was
 * looked at. For people: a node has hundreds of pods, and most are well.
 */
export function joinFineSubjects(findings: readonly Finding[], subjects: ReadonlySet<string>): readonly Finding[] {
  const bySubject = Map.groupBy(findings, ({ subject }) => subject);
  const joined = new Set<string>();
  return findings.flatMap((finding) => {
    const { subject } = finding;
    const all = bySubject.get(subject) ?? [];
    if (!subjects.has(subject) || all.some(({ status }) => status !== 'ok')) return [finding];
    if (joined.has(subject)) return [];
    joined.add(subject);
    const areas = [...new Set(all.map(({ area }) => area))];
    return [{ ...finding, area: 'pod', message: `in order: ${areas.join(', ')}` }];
  });
}

/** A wider column costs more by the blanks in all other lines than it helps. */
const SUBJECT_WIDTH_MAX = 44;

/** `fail  rules  demo/shop-0  missing table inet aether`, aligned, the remedy on a line of its own below. */
export function formatFindings(findings: readonly Finding[]): string {
  const width = (texts: readonly string[], max: number): number =>
    Math.min(max, Math.max(0, ...texts.map(({ length }) => length)));
  const areaWidth = width(
    findings.map(({ area }) => area),
    16,
  );
  const subjectWidth = width(
    findings.map(({ subject }) => subject),
    SUBJECT_WIDTH_MAX,
  );
  return findings
    .map(({ status, area, subject, message, remedy }) => {
      const head = `${status.padEnd(4)}  ${onOneLine(area).padEnd(areaWidth)}  ${onOneLine(subject).padEnd(subjectWidth)}`;
      const todo = remedy === '' ? '' : `      to do: ${onOneLine(remedy)}\n`;
      return `${head}  ${onOneLine(message)}\n${todo}`;
    })
    .join('');
}

/** `2 problems, 1 warning, 14 fine`. */
export function summariseFindings(findings: readonly Finding[]): string {
  const count = (status: FindingStatus): number => findings.filter((finding) => finding.status === status).length;
  const [failed, warned] = [count('fail'), count('warn')];
  const plural = (number: number, noun: string): string => `${number} ${noun}${number === 1 ? '' : 's'}`;
  return `${plural(failed, 'problem')}, ${plural(warned, 'warning')}, ${count('ok')} fine`;
}

/** `{"ok":false,"findings":[{"status":"fail","area":…,"subject":…,"message":…,"remedy":…}]}`, indented. */
export function formatFindingsJson(findings: readonly Finding[]): string {
  return `${JSON.stringify({ ok: isFine(findings), findings }, null, 2)}\n`;
}
