// Where a setting comes from: flag over AETHER_* variable over config file over default. Here are only texts and their
// sources; what they mean is parsed elsewhere.
import { messageOf } from '../core/errors.ts';
import { type ProblemList, quoteValue } from '../core/problems.ts';

/** One setting: `--cni-socket PATH`, `AETHER_CNI_SOCKET`, `cni_socket` in the config file. */
export interface SettingRow {
  /** Without the dashes. */
  readonly name: string;
  /** Shown in the help; absent: the flag takes no value and means true. */
  readonly value?: string;
  /** May be given more than once: by repeating the flag, with commas in the variable, as a list in the file. */
  readonly isList?: boolean;
  readonly help: string;
  /** Text of the default, with its unit; absent: there is none. */
  readonly fallback?: string;
}

/** What one setting was given, and where: `--vip-cidr`, `AETHER_VIP_CIDR`, `vip_cidr in /etc/aether/agent.json`. */
export interface SettingText {
  readonly texts: readonly string[];
  readonly path: string;
}

export type SettingTexts = ReadonlyMap<string, SettingText>;

export interface SettingSources {
  /** By the row's name; as the command line parser gives them. */
  readonly flags: ReadonlyMap<string, readonly string[]>;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Absent: no config file. */
  readonly file?: { readonly path: string; readonly text: string };
}

/** `cni-socket` -> `AETHER_CNI_SOCKET` */
export function variableOf(name: string): string {
  return `AETHER_${name.toUpperCase().replaceAll('-', '_')}`;
}

function fileKeyOf(name: string): string {
  return name.replaceAll('-', '_');
}

/** Joins the sources. A bad config file and its unknown keys are added to `list`. */
export function collectSettings(rows: readonly SettingRow[], sources: SettingSources, list: ProblemList): SettingTexts {
  const file = sources.file === undefined ? new Map<string, SettingText>() : readFile(rows, sources.file, list);
  const found = new Map<string, SettingText>();
  for (const row of rows) {
    const flag = sources.flags.get(row.name);
    const variable = sources.environment[variableOf(row.name)];
    const text =
      flag !== undefined
        ? { texts: flag, path: `--${row.name}` }
        : // An empty variable is how a unit file or a pod spec says "not set".
          variable !== undefined && variable !== ''
          ? { texts: row.isList ? splitList(variable) : [variable], path: variableOf(row.name) }
          : file.get(row.name);
    if (text !== undefined) found.set(row.name, text);
  }
  return found;
}

function splitList(text: string): readonly string[] {
  return text
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');
}

function readFile(
  rows: readonly SettingRow[],
  { path, text }: { readonly path: string; readonly text: string },
  list: ProblemList,
): Map<string, SettingText> {
  const found = new Map<string, SettingText>();
  let root: unknown;
  try {
    root = JSON.parse(text);
  } catch (error) {
    list.add(path, `must be JSON: ${messageOf(error)}`);
    return found;
  }
  if (typeof root !== 'object' || root === null || Array.isArray(root)) {
    list.add(path, `must be an object, got ${quoteValue(root)}`);
    return found;
  }
  const names = new Map(rows.map((row) => [fileKeyOf(row.name), row]));
  for (const [key, value] of Object.entries(root)) {
    const row = names.get(key);
    const where = `${key} in ${path}`;
    const texts = row === undefined ? undefined : textsOf(row, value);
    if (row === undefined) list.add(where, 'unknown key');
    else if (texts === undefined) list.add(where, `must be ${wantedOf(row)}, got ${quoteValue(value)}`);
    else found.set(row.name, { texts, path: where });
  }
  return found;
}

function textsOf(row: SettingRow, value: unknown): readonly string[] | undefined {
  if (row.value === undefined) return typeof value === 'boolean' ? [String(value)] : undefined;
  if (typeof value === 'string') return [value];
  const isTexts = Array.isArray(value) && value.every((item) => typeof item === 'string');
  return row.isList && isTexts ? value : undefined;
}

function wantedOf(row: SettingRow): string {
  if (row.value === undefined) return 'true or false';
  return row.isList ? 'a text or a list of texts' : 'a text';
}
