// Envoys of this host, found in /proc: their limits, and how many workers they run. Nothing is sent to them.
import { readdir, readFile } from 'node:fs/promises';
import type { EnvoyProcess } from '../../agent/node-check-deps.ts';
import { parseOpenFileLimit } from './agent-host.ts';

/** Those whose bootstrap names the xDS socket; all Envoys where none can be seen to. */
export async function listEnvoys(xdsSocket: string, proc = '/proc'): Promise<readonly EnvoyProcess[]> {
  const pids = (await readdir(proc)).filter((name) => /^[0-9]+$/.test(name));
  const envoys: { readonly pid: string; readonly isOurs: boolean }[] = [];
  for (const pid of pids) {
    if ((await read(`${proc}/${pid}/comm`)).trim() !== 'envoy') continue;
    const args = (await read(`${proc}/${pid}/cmdline`)).split('\0');
    // One that has ended and that nobody waited for has none.
    if (args[0] === '') continue;
    envoys.push({ pid, isOurs: await namesSocket(args, { dir: `${proc}/${pid}`, xdsSocket }) });
  }
  const ours = envoys.filter(({ isOurs }) => isOurs);
  return Promise.all((ours.length > 0 ? ours : envoys).map(({ pid }) => describe(proc, pid)));
}

async function describe(proc: string, pid: string): Promise<EnvoyProcess> {
  return {
    pid: Number(pid),
    openFileLimit: parseOpenFileLimit(await read(`${proc}/${pid}/limits`)),
    workers: await countWorkers(`${proc}/${pid}/task`),
  };
}

// Its threads are called wrk:worker_0, wrk:worker_1, …
async function countWorkers(dir: string): Promise<number> {
  const tasks = await readdir(dir).catch(() => []);
  const names = await Promise.all(tasks.map((task) => read(`${dir}/${task}/comm`)));
  return names.filter((name) => name.startsWith('wrk:worker_')).length;
}

async function namesSocket(
  args: readonly string[],
  { dir, xdsSocket }: { readonly dir: string; readonly xdsSocket: string },
): Promise<boolean> {
  // --config-yaml
  if (args.some((arg) => arg.includes(xdsSocket))) return true;
  const file = args[args.findIndex((arg) => arg === '-c' || arg === '--config-path') + 1] ?? '';
  if (file === args[0]) return false;
  const path = file.startsWith('/') ? `${dir}/root${file}` : `${dir}/cwd/${file}`;
  return (await read(path)).includes(xdsSocket);
}

// A process may end at any moment, and the file of one may not be there for us.
async function read(path: string): Promise<string> {
  return readFile(path, 'utf8').catch(() => '');
}
