// Entry of the executable: a CNI call when CNI_COMMAND is set, else the command line. Nothing else.
// An empty CNI_COMMAND is none, as libcni has it.

async function main(): Promise<void> {
  if (process.env['CNI_COMMAND']) {
    process.stderr.write('aether-cni: no plugin yet\n');
    return;
  }
  const args = process.argv.slice(2);
  if (args.length === 0) {
    process.stderr.write((await import('./commands/version.ts')).formatAbout());
    return;
  }
  process.exitCode = await (await import('./commands/cli.ts')).runCli(args);
}

void main();
