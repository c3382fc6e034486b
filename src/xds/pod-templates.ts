// A pod's resources by analogy. Pods of one shape differ in four texts: namespace, name, network namespace, identity. So the bytes
// of one with other texts of the same length in their places are the bytes of the next; building and encoding a pod's messages
// takes fifty times as long. Whether that holds is not assumed: a template is kept only if it gives what was built.
import { RecentMap } from '../core/recent-map.ts';
import type { Hash } from './encode-resource.ts';
import type { NodePod } from './input.ts';
import type { Resource } from './resource.ts';
import { stampFacts } from './resource-facts.ts';
import { encodeTexts, findPlaces, marksFor, PLAIN, type Place, stampBytes } from './stamped-bytes.ts';

/** Builds a pod's resources the ordinary way; the same for all pods that are asked about with one `key`. */
export interface PodBuilder {
  /** All that they depend on besides the pod. */
  readonly key: string;
  readonly hash: Hash;
  build(pod: NodePod): readonly Resource[];
}

/** More kinds of pods than a node has at a time. */
const CACHE_SIZE = 128;
interface Template {
  readonly resources: readonly { readonly resource: Resource; readonly places: readonly Place[] }[];
  readonly marks: readonly string[];
  /** Names in it, as they were split. */
  readonly names: Map<string, readonly (string | number)[]>;
}

const templates = new WeakMap<Hash, RecentMap<Template | 'none'>>();

/** What `builder` would build. */
export function podResources(pod: NodePod, builder: PodBuilder): readonly Resource[] {
  const texts = textsOf(pod);
  if (texts === undefined) return builder.build(pod);
  const cache = templates.get(builder.hash) ?? new RecentMap<Template | 'none'>(CACHE_SIZE);
  templates.set(builder.hash, cache);
  const lengths = texts.map((text) => text.length);
  const key = `${builder.key} ${JSON.stringify({ ...pod, resourceName: lengths, netnsPath: '', identity: '' })}`;
  let built: readonly Resource[] | undefined;
  const template = cache.getOrMake(key, () => {
    built = builder.build(pod);
    return makeTemplate(pod, texts, { builder, resources: built });
  });
  return built ?? (template === 'none' ? builder.build(pod) : stamp(template, texts, builder.hash));
}

// Undefined: one of them may be written otherwise in some place.
function textsOf({ resourceName, netnsPath, identity }: NodePod): readonly string[] | undefined {
  const at = resourceName.indexOf('_');
  const texts = [resourceName.slice(0, at), resourceName.slice(at + 1), netnsPath, identity];
  return at > 0 && texts.every((text) => PLAIN.test(text)) ? texts : undefined;
}

function makeTemplate(
  pod: NodePod,
  texts: readonly string[],
  { builder, resources }: { readonly builder: PodBuilder; readonly resources: readonly Resource[] },
): Template | 'none' {
  const marks = marksFor(texts);
  const [namespace = '', name = '', netnsPath = '', identity = ''] = marks;
  const marked = builder.build({ ...pod, resourceName: `${namespace}_${name}`, netnsPath, identity });
  const template: Template = {
    marks,
    names: new Map(),
    resources: marked.map((resource) => ({ resource, places: findPlaces(resource.bytes, marks) })),
  };
  const stamped = stamp(template, texts, builder.hash);
  const isSame = stamped.length === resources.length && stamped.every((resource, i) => isEqual(resource, resources[i]));
  return isSame ? template : 'none';
}

function stamp({ resources, marks, names }: Template, texts: readonly string[], hash: Hash): readonly Resource[] {
  const encoded = encodeTexts(texts);
  const rename = (text: string): string => {
    const pieces = names.get(text) ?? splitName(text, marks);
    names.set(text, pieces);
    return pieces.length === 1
      ? text
      : pieces.map((piece) => (typeof piece === 'number' ? texts[piece] : piece)).join('');
  };
  return resources.map(({ resource, places }) => {
    const bytes = stampBytes({ bytes: resource.bytes, places }, encoded);
    const { edsName, ...rest } = resource;
    const stamped: Resource = {
      ...rest,
      name: rename(resource.name),
      version: hash(bytes),
      bytes,
      ...(edsName === undefined ? {} : { edsName: rename(edsName) }),
    };
    stampFacts(resource, stamped, rename);
    return stamped;
  });
}

// A name without a mark is one piece; a number stands for a text.
function splitName(name: string, marks: readonly string[]): readonly (string | number)[] {
  let pieces: readonly (string | number)[] = [name];
  for (const [index, mark] of marks.entries()) {
    pieces = pieces.flatMap((piece) => {
      if (typeof piece === 'number') return [piece];
      return piece.split(mark).flatMap((part, i) => (i === 0 ? [part] : [index, part]));
    });
  }
  return pieces;
}

function isEqual(a: Resource, b: Resource | undefined): boolean {
  return a.kind === b?.kind && a.name === b.name && a.version === b.version && a.edsName === b.edsName;
}
