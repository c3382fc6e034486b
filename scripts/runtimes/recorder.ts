// A CNI plugin for the tests that writes down what it was called with, one JSON line a call, and passes the previous result on;
// with `result` in its entry it is a primary plugin that answers that. Runs by a wrapper (plugin-dir.ts). `recordFile` in its
// entry names the file; several may run at once.
import { execFileSync } from 'node:child_process';
import { appendFileSync, readdirSync, readFileSync, statSync } from 'node:fs';

/** One call, as written. `lo` and `processes` are of the sandbox's namespace at that moment. */
export interface RecordedCall {
  /** Unix time in milliseconds. */
  readonly at: number;
  readonly command: string;
  readonly containerId: string;
  readonly netns: string;
  readonly ifname: string;
  readonly args: string;
  readonly path: string;
  readonly config: Readonly<Record<string, unknown>>;
  readonly lo: 'up' | 'down' | 'unknown';
  /** How many processes are in the namespace. */
  readonly processes: number;
}

function stateOfLo(netns: string): RecordedCall['lo'] {
  try {
    const flags = execFileSync('nsenter', [`--net=${netns}`, 'ip', '-o', 'link', 'show', 'lo'], { encoding: 'utf8' });
    return /[<,]UP[,>]/.test(flags) ? 'up' : 'down';
  } catch {
    return 'unknown';
  }
}

function countProcesses(netns: string): number {
  const inodeOf = (path: string) => {
    try {
      return statSync(path).ino;
    } catch {
      return undefined;
    }
  };
  const wanted = inodeOf(netns);
  if (wanted === undefined) return 0;
  return readdirSync('/proc').filter((name) => /^\d+$/.test(name) && inodeOf(`/proc/${name}/ns/net`) === wanted).length;
}

const command = process.env['CNI_COMMAND'] ?? '';
if (command === 'VERSION') {
  process.stdout.write('{"cniVersion":"1.1.0","supportedVersions":["0.3.0","0.3.1","0.4.0","1.0.0","1.1.0"]}');
} else {
  const stdin = readFileSync(0, 'utf8');
  const config = JSON.parse(stdin) as Record<string, unknown>; // what libcni made
  const netns = process.env['CNI_NETNS'] ?? '';
  const call: RecordedCall = {
    at: Date.now(),
    command,
    containerId: process.env['CNI_CONTAINERID'] ?? '',
    netns,
    ifname: process.env['CNI_IFNAME'] ?? '',
    args: process.env['CNI_ARGS'] ?? '',
    path: process.env['CNI_PATH'] ?? '',
    config,
    lo: netns === '' ? 'unknown' : stateOfLo(netns),
    processes: netns === '' ? 0 : countProcesses(netns),
  };
  appendFileSync(String(config['recordFile']), `${JSON.stringify(call)}\n`);
  if (command === 'ADD') process.stdout.write(JSON.stringify(config['result'] ?? config['prevResult']));
}
