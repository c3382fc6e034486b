// The list of what an executable is made from besides our own source: name, version, licence, and the licence's text as its
// package ships it. Goes beside the executable with the texts of packaging/licenses.
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

/** Absolute package folders (`…/node_modules/@scope/name`, nested ones too) of a list of files, sorted, once each. */
export function listPackages(files: readonly string[]): string[] {
  const folders = files.flatMap((file) => /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(resolve(file))?.[1] ?? []);
  return [...new Set(folders)].sort();
}

function describePackage(folder: string): string {
  const manifest: { readonly name: string; readonly version: string; readonly license?: string } = JSON.parse(
    readFileSync(join(folder, 'package.json'), 'utf8'),
  );
  const texts = readdirSync(folder)
    .filter((file) => /^(licen[cs]e|notice|copying)/i.test(file))
    .sort()
    .map((file) => readFileSync(join(folder, file), 'utf8').trim());
  return [`${manifest.name} ${manifest.version}: ${manifest.license ?? 'see below'}`, ...texts].join('\n\n');
}

function describeDebianPackages(names: readonly string[]): string {
  const format = `\${Package} \${Version}, Debian source package \${source:Package} \${source:Version}\n`;
  return execFileSync('dpkg-query', ['-W', '-f', format, ...names], { encoding: 'utf8' }).trim();
}

/** Fills the folder anew. Everything in it may be given on with the executable. */
export function writeLicenses(directory: string, packages: readonly string[]): void {
  mkdirSync(directory, { recursive: true });
  cpSync('packaging/licenses', directory, { recursive: true });
  const parts = [describeDebianPackages(['libnftnl11', 'libmnl0', 'musl-dev']), ...packages.map(describePackage)];
  writeFileSync(join(directory, 'THIRD-PARTY.txt'), `${parts.join(`\n\n${'-'.repeat(80)}\n\n`)}\n`);
}
