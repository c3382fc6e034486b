// Reads the TAP 14 that a test file prints: https://testanything.org/tap-version-14-specification.html, as node-tap writes it
// (subtests indented by four, YAML diagnostics behind their test point). Counts leaves: a subtest's own line only says again
// what its assertions said, so it counts only when it has none, or fails although none of them did.

export interface TapFailure {
  /** Titles from the outermost subtest inwards, joined by ` > `. */
  readonly title: string;
  /** `failed`, or why it counts as a failure although it is `ok`. */
  readonly reason: 'failed' | 'skipped' | 'todo';
  /** The YAML block's lines, with their indentation taken off. */
  readonly diagnostic: readonly string[];
}

export interface TapReport {
  readonly passed: number;
  readonly failures: readonly TapFailure[];
  /** Whether the outermost plan is there, is not `1..0`, and equals the points seen. False for a file that died. */
  readonly complete: boolean;
}

const POINT = /^((?: {4})*)(not )?ok\b(?: \d+)?(?: - )?(.*)$/;
const DIRECTIVE = /(?:^|\s)#\s*(skip|todo)\b/i;

interface MutableFailure extends TapFailure {
  readonly diagnostic: string[];
}

/** What is known of the points at one indentation and deeper, since the last enclosing point. */
interface Level {
  /** The last subtest announced at this indentation. */
  subtest: string;
  points: number;
  failures: number;
}

class TapReader {
  passed = 0;
  readonly failures: MutableFailure[] = [];
  private plan = 0;
  private topPoints = 0;
  private bailed = false;
  private readonly levels: Level[] = [];

  get complete(): boolean {
    return !this.bailed && this.plan > 0 && this.plan === this.topPoints;
  }

  /** Returns the failure that this line reports, so that a diagnostic can be added to it; null for a point that passed. */
  readPoint(depth: number, ok: boolean, rest: string): MutableFailure | null {
    const below = this.levels[depth + 1];
    this.levels.splice(depth + 1);
    if (depth === 0) this.topPoints++;
    const isSubtest = below !== undefined && below.points > 0;
    const directive = DIRECTIVE.exec(rest)?.[1]?.toLowerCase();
    const reason = directive === undefined ? 'failed' : directive === 'skip' ? 'skipped' : 'todo';
    const failed = reason !== 'failed' || !ok;
    const counts = !isSubtest || (failed && below.failures === 0);
    for (let outer = 0; outer <= depth; outer++) {
      const level = this.level(outer);
      level.points++;
      if (failed && counts) level.failures++;
    }
    if (!failed) {
      if (counts) this.passed++;
      return null;
    }
    if (!counts) return null;
    const title = rest.replace(/\s# (?:time=.*|skip\b.*|todo\b.*)$/i, '').replaceAll('\\#', '#');
    const parents = this.levels.slice(0, depth).map((level) => level.subtest);
    const path = [...parents, title].filter((part) => part !== '').join(' > ');
    const failure: MutableFailure = { title: path, reason, diagnostic: [] };
    this.failures.push(failure);
    return failure;
  }

  readSubtest(depth: number, name: string): void {
    this.level(depth).subtest = name.replaceAll('\\#', '#');
  }

  readTopLine(line: string): void {
    const plan = /^1\.\.(\d+)/.exec(line)?.[1];
    if (plan !== undefined) this.plan = Number(plan);
    if (line.startsWith('Bail out!')) this.bailed = true;
  }

  private level(depth: number): Level {
    for (let missing = this.levels.length; missing <= depth; missing++) {
      this.levels.push({ subtest: '', points: 0, failures: 0 });
    }
    const level = this.levels[depth];
    if (level === undefined) throw new Error('unreachable: the level was just made');
    return level;
  }
}

/** Never throws: what is not TAP (a test's own output) is passed over. */
export function readTap(text: string): TapReport {
  const reader = new TapReader();
  let lastPoint: MutableFailure | null = null;
  let yamlIndent: string | undefined;
  for (const line of text.split('\n')) {
    if (yamlIndent !== undefined) {
      if (line === `${yamlIndent}...`) yamlIndent = undefined;
      else lastPoint?.diagnostic.push(line.startsWith(yamlIndent) ? line.slice(yamlIndent.length) : line);
      continue;
    }
    const point = POINT.exec(line);
    const subtest = /^((?: {4})*)# Subtest: (.*)$/.exec(line);
    if (point) lastPoint = reader.readPoint((point[1] ?? '').length / 4, point[2] === undefined, point[3] ?? '');
    else if (subtest) reader.readSubtest((subtest[1] ?? '').length / 4, subtest[2] ?? '');
    else if (/^ +---$/.test(line)) yamlIndent = line.slice(0, -3);
    else reader.readTopLine(line);
  }
  return { passed: reader.passed, failures: reader.failures, complete: reader.complete };
}
