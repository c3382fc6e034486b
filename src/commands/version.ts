// `aether-cni version`, and the text about the program that an empty call prints.
import type { Command } from 'commander';
import manifest from '../../package.json' with { type: 'json' };
import { SUPPORTED_VERSIONS } from '../cni/versions.ts';

/** The product's version, from package.json: `0.1.0`. */
export const VERSION: string = manifest.version;

/** For people: what this is, which CNI versions it speaks, where to go on. The relay says the same. */
export function formatAbout(): string {
  return [
    `aether-cni ${VERSION}: CNI plugin and mesh node agent`,
    `CNI protocol versions supported: ${SUPPORTED_VERSIONS.join(', ')}`,
    '"aether-cni --help" lists the commands',
    '',
  ].join('\n');
}

/** Adds the subcommand: the version, or with `--json` `{"version","cniVersions","node"}`. */
export function registerVersion(program: Command): void {
  program
    .command('version')
    .description('print the version')
    .option('--json', 'for machines')
    .action((flags: { readonly json?: boolean }) => {
      const facts = { version: VERSION, cniVersions: SUPPORTED_VERSIONS, node: process.version };
      process.stdout.write(flags.json ? `${JSON.stringify(facts)}\n` : `aether-cni ${VERSION}\n`);
    });
}
