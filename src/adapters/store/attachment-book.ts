// Notes of which interface of a container is in the mesh: one file a container, `<container id>`, holding
// `{"ifname":"eth0","network":"k8s-pod-network"}`, and `netns` where the container has no pin. They lie on a tmpfs and are gone
// at a reboot, as the containers are.
import { constants, readFileSync } from 'node:fs';
import { lstat, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { messageOf, StoreError } from '../../core/errors.ts';
import { type ContainerId, parseContainerId, parseNetnsPath } from '../../core/identifiers.ts';
import type { AttachmentBook, AttachmentNote } from '../../plugin/deps.ts';
import { makePluginDir } from './delete-queue.ts';

/** How long another may take from making a note to having written it. */
const WRITING_ATTEMPTS = 5;
const WRITING_MS = 20;
// O_NONBLOCK: a pipe that somebody put there is not waited for. O_NOFOLLOW: nor a link written through.
const { O_RDONLY, O_WRONLY, O_CREAT, O_TRUNC, O_NONBLOCK, O_NOFOLLOW } = constants;
const READ = O_RDONLY | O_NONBLOCK | O_NOFOLLOW;
const OVERWRITE = O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | O_NOFOLLOW;

export const attachmentBook: AttachmentBook = {
  async claim(dir, note) {
    const path = join(dir, note.containerId);
    const text = formatNote(note);
    try {
      await makePluginDir(dir);
      await writeFile(path, text, { flag: 'wx', mode: 0o600 });
      return note;
    } catch (error) {
      if (!isCode(error, 'EEXIST')) throw await withoutCutNote(path, error);
    }
    const standing = await readStanding(dir, note.containerId);
    if (standing !== undefined) return standing;
    // One that a crash cut says nothing: ours takes its place.
    try {
      await writeFile(path, text, { flag: OVERWRITE, mode: 0o600 });
      return note;
    } catch (error) {
      throw await withoutCutNote(path, error);
    }
  },

  find: async (dir, containerId) => readNote(dir, containerId),

  async list(dir) {
    const notes: AttachmentNote[] = [];
    for (const containerId of await listContainerIds(dir)) {
      const note = readNote(dir, containerId) ?? (await findCutNote(dir, containerId));
      if (note !== undefined) notes.push(note);
    }
    return notes;
  },

  async release(dir, containerId) {
    const path = join(dir, containerId);
    await rm(path, { force: true }).catch((error: unknown) => {
      throw storeError('removing', path, error);
    });
  },
};

/** What the file holds. */
export function formatNote({ ifname, network, netns }: AttachmentNote): string {
  return `${JSON.stringify({ ifname, network, netns })}\n`;
}

/**
 * Names in a directory that are container ids, sorted; foreign files are left out, no directory is an empty list. Throws
 * StoreError.
 */
export async function listContainerIds(dir: string): Promise<readonly ContainerId[]> {
  try {
    const names = (await readdir(dir)).sort();
    return names.map(parseContainerId).filter((id): id is ContainerId => typeof id === 'string');
  } catch (error) {
    if (isCode(error, 'ENOENT')) return [];
    throw storeError('reading', dir, error);
  }
}

// Made a moment before it is written: one that says nothing may yet.
async function readStanding(dir: string, containerId: ContainerId): Promise<AttachmentNote | undefined> {
  for (let attempt = 1; attempt < WRITING_ATTEMPTS; attempt++) {
    const note = readNote(dir, containerId);
    if (note !== undefined) return note;
    await setTimeout(WRITING_MS);
  }
  return readNote(dir, containerId);
}

function readNote(dir: string, containerId: ContainerId): AttachmentNote | undefined {
  try {
    // At once: some bytes in memory, and every DEL waits for them.
    const text = readFileSync(`${dir}/${containerId}`, { encoding: 'utf8', flag: READ });
    if (last?.text !== text) last = { text, says: parseNote(text) };
    return last.says && { containerId, ...last.says };
  } catch {
    return undefined;
  }
}

// Most notes of a node say the same: their container is in their name.
let last: { readonly text: string; readonly says: Omit<AttachmentNote, 'containerId'> | undefined } | undefined;

// Throws where it is no JSON.
function parseNote(text: string): Omit<AttachmentNote, 'containerId'> | undefined {
  const value: unknown = JSON.parse(text);
  if (typeof value !== 'object' || value === null || !('ifname' in value) || !('network' in value)) return undefined;
  const { ifname, network } = value;
  if (typeof ifname !== 'string' || typeof network !== 'string') return undefined;
  const netns = 'netns' in value && typeof value.netns === 'string' ? parseNetnsPath(value.netns) : undefined;
  return { ifname, network, ...(typeof netns === 'string' ? { netns } : {}) };
}

// One whose ADD died between making and writing it. Whatever else cannot be read was put there by others.
async function findCutNote(dir: string, containerId: ContainerId): Promise<AttachmentNote | undefined> {
  try {
    const stats = await lstat(join(dir, containerId));
    return stats.isFile() && stats.size === 0 ? { containerId, ifname: '', network: '' } : undefined;
  } catch {
    return undefined;
  }
}

// Made, but not written: nothing of an ADD that fails may stay.
async function withoutCutNote(path: string, error: unknown): Promise<StoreError> {
  const stats = await lstat(path).catch(() => undefined);
  if (stats?.isFile()) await rm(path, { force: true }).catch(() => {});
  return storeError('writing', path, error);
}

function isCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}

function storeError(what: string, path: string, cause: unknown): StoreError {
  return new StoreError(`${what} ${path}: ${messageOf(cause)}`, { cause });
}
