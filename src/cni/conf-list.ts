// The runtime's configuration directory as libcni reads it: which file is the active one, which plugins it chains, and our
// entry in it. Reading only; nobody's file is judged by more than the runtime asks for.
import { messageOf } from '../core/errors.ts';
import { type Problem, quoteValue } from '../core/problems.ts';
import { findMember, type JsonNode, type JsonObject } from './json.ts';
import { type ConfigSource, decodeNetConfig, type NetConfig, readNetConfig } from './net-config.ts';

/** What our entry has as `type`: the name of the executable. */
export const PLUGIN_TYPE = 'aether-cni';

/** A file of the directory. */
export interface ConfFile {
  readonly name: string;
  readonly bytes: Uint8Array;
}

/** A configuration list, or a single configuration taken as a list of one. */
export interface ConfList {
  readonly file: string;
  /** Of each plugin, in order. */
  readonly types: readonly string[];
  /** Our entries; one is right. */
  readonly entries: readonly ConfEntry[];
}

export interface ConfEntry {
  /** Place in the list, from 0. */
  readonly index: number;
  readonly source: ConfigSource;
  /** Whether the runtime is asked for the pod's annotations. */
  readonly hasAnnotations: boolean;
  /** Of the entry alone: the runtime adds the name. */
  readonly config: NetConfig;
  readonly problems: readonly Problem[];
}

/** `active`: the first that is valid, in the runtime's order. `broken`: what the runtime passes over, and why. */
export interface ConfDirReading {
  readonly active: ConfList | undefined;
  readonly others: readonly ConfList[];
  readonly broken: readonly { readonly file: string; readonly reason: string }[];
}

/** libcni's ConfFiles(dir, {".conf", ".conflist", ".json"}). */
const EXTENSION = /\.(conf|conflist|json)$/;
const ANNOTATIONS_CAPABILITY = 'io.kubernetes.cri.pod-annotations';

/** Whether the runtime looks at a file of this name. */
export function isConfName(name: string): boolean {
  return EXTENSION.test(name);
}

/** Takes the files in any order; those with other names are left out. */
export function readConfDir(files: readonly ConfFile[]): ConfDirReading {
  const lists: ConfList[] = [];
  const broken: { file: string; reason: string }[] = [];
  const sorted = files.filter(({ name }) => isConfName(name)).sort((a, b) => (a.name < b.name ? -1 : 1));
  for (const { name, bytes } of sorted) {
    try {
      lists.push(readConfFile(name, bytes));
    } catch (error) {
      broken.push({ file: name, reason: messageOf(error) });
    }
  }
  const [active, ...others] = lists;
  return { active, others, broken };
}

/** Our entries in a configuration of any form: the object itself where it is no list. */
export function findEntries(source: ConfigSource): readonly JsonObject[] {
  return listPlugins(source.root).filter((plugin) => typeOf(plugin) === PLUGIN_TYPE);
}

function readConfFile(file: string, bytes: Uint8Array): ConfList {
  const source = decodeNetConfig(bytes);
  if (file.endsWith('.conflist')) {
    requireText(source.root, 'name');
    if (findMember(source.root, 'plugins')?.value.kind !== 'array') throw new TypeError('it has no list "plugins"');
  }
  const plugins = listPlugins(source.root);
  if (plugins.length === 0) throw new TypeError('it lists no plugin');
  const types = plugins.map((plugin) => requireText(plugin, 'type'));
  return { file, types, entries: readEntries(plugins, source.text) };
}

function readEntries(plugins: readonly JsonObject[], text: string): readonly ConfEntry[] {
  return plugins.flatMap((root, index) => {
    if (typeOf(root) !== PLUGIN_TYPE) return [];
    const source = { text, root };
    const { config, problems } = readNetConfig(source);
    const hasAnnotations = isAsked(findMember(root, 'capabilities')?.value);
    return [{ index, source, hasAnnotations, config, problems: problems.filter(({ path }) => path !== 'name') }];
  });
}

function isAsked(capabilities: JsonNode | undefined): boolean {
  if (capabilities?.kind !== 'object') return false;
  const value = findMember(capabilities, ANNOTATIONS_CAPABILITY)?.value;
  return value?.kind === 'boolean' && value.value;
}

function listPlugins(root: JsonObject): readonly JsonObject[] {
  const plugins = findMember(root, 'plugins')?.value;
  if (plugins?.kind !== 'array') return [root];
  return plugins.items.filter((item): item is JsonObject => item.kind === 'object');
}

function typeOf(plugin: JsonObject): string {
  const type = findMember(plugin, 'type')?.value;
  return type?.kind === 'string' ? type.value : '';
}

function requireText(object: JsonObject, key: string): string {
  const value = findMember(object, key)?.value;
  if (value?.kind === 'string' && value.value !== '') return value.value;
  throw new TypeError(`${quoteValue(key)} must be a text that is not empty`);
}
