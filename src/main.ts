// Entry of the executable: a CNI call when CNI_COMMAND is set, else the command line. Nothing else.
// An empty CNI_COMMAND is none, as libcni has it.

async function main(): Promise<void> {
  if (process.env['CNI_COMMAND']) {
    await (await import('./commands/plugin.ts')).runPlugin();
  }
  const args = process.argv.slice(2);
  if (args.length === 0) {
    process.stderr.write((await import('./commands/version.ts')).formatAbout());
    return;
  }
  process.exitCode = await (await import('./commands/cli.ts')).runCli(args);
}

// What cannot even be loaded is still an answer: one JSON object for a runtime, but for DEL, which always ends well.
main().catch((error: unknown) => {
  process.stderr.write(`aether-cni: ${error instanceof Error ? error.stack : String(error)}\n`);
  const command = process.env['CNI_COMMAND'];
  process.exitCode = command === 'DEL' ? 0 : 1;
  if (!command || command === 'DEL') return;
  const msg = `internal error: ${error instanceof Error ? error.message : String(error)}`;
  process.stdout.write(`${JSON.stringify({ cniVersion: '1.1.0', code: 999, msg, details: '' })}\n`);
});
