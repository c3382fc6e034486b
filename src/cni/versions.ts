// Which versions of the CNI specification we speak, and which verb came with which.
import { VersionError } from '../core/errors.ts';
import type { Verb } from './environment.ts';

export const SUPPORTED_VERSIONS = ['0.3.0', '0.3.1', '0.4.0', '1.0.0', '1.1.0'] as const;
export type CniVersion = (typeof SUPPORTED_VERSIONS)[number];
/** What we answer in where no configuration names a version. */
export const LATEST_VERSION: CniVersion = '1.1.0';
/** What a configuration without `cniVersion` means (libcni: `0.1.0` or `0.2.0`, which are one format). */
const ABSENT_VERSION = '0.2.0';

const VERB_SINCE: Readonly<Record<Verb, CniVersion>> = {
  ADD: '0.3.0',
  DEL: '0.3.0',
  VERSION: '0.3.0',
  CHECK: '0.4.0',
  GC: '1.1.0',
  STATUS: '1.1.0',
};

/** Exactly as the specification spells it. */
export function isSupportedVersion(text: string): text is CniVersion {
  return SUPPORTED_VERSIONS.includes(text as CniVersion);
}

/** Whether `version` is `since` or later. */
export function isAtLeast(version: CniVersion, since: CniVersion): boolean {
  return SUPPORTED_VERSIONS.indexOf(version) >= SUPPORTED_VERSIONS.indexOf(since);
}

/** The configuration's version, fit for the verb. `text` undefined or empty: 0.2.0. Throws VersionError. */
export function parseVersion(text: string | undefined, verb: Verb): CniVersion {
  const version = text === undefined || text === '' ? ABSENT_VERSION : text;
  if (!isSupportedVersion(version)) {
    const shown = /^[0-9A-Za-z.+-]{1,32}$/.test(version) ? `"${version}"` : 'the given one';
    const why = text === undefined || text === '' ? `absent, which means "${ABSENT_VERSION}"` : shown;
    throw new VersionError(`reading cniVersion: ${why}; it must be one of the supported versions`, SUPPORTED_VERSIONS);
  }
  if (!isAtLeast(version, VERB_SINCE[verb])) {
    const message = `${verb} with cniVersion "${version}": it exists since ${VERB_SINCE[verb]}`;
    throw new VersionError(
      message,
      SUPPORTED_VERSIONS.filter((other) => isAtLeast(other, VERB_SINCE[verb])),
    );
  }
  return version;
}

/** The answer of VERSION. */
export function formatVersionAnswer(): string {
  return `${JSON.stringify({ cniVersion: LATEST_VERSION, supportedVersions: SUPPORTED_VERSIONS })}\n`;
}
