// The program as a CNI plugin: reads its variables and stdin, answers once. Whatever happens, stdout carries one JSON
// document or nothing, and printing it is the last act.
import { writeSync } from 'node:fs';
import { CONFIG_MAX_BYTES } from '../cni/config-limit.ts';
import { formatErrorObject, toErrorObject } from '../cni/error-object.ts';
import type { RelayAnswer } from '../cni/relay-frame.ts';
import { formatVersionAnswer } from '../cni/versions.ts';
import { AgentError, messageOf, StoreError } from '../core/errors.ts';

/** A runtime writes the configuration at once and closes; one that does not must get an answer all the same. */
const STDIN_IDLE_MS = 5000;
const STDIN_TOTAL_MS = 30_000;
/** For a full stdout or stderr. */
const WRITE_MS = 5000;

/** Ends the process. */
export async function runPlugin(): Promise<never> {
  // A defect in a callback must not leave the runtime without an answer.
  process.on('uncaughtException', (error) => finish(crashAnswer(error)));
  process.on('unhandledRejection', (error) => finish(crashAnswer(error)));
  return finish(await answer());
}

// What an answer does not need is not loaded for it.
async function answer(): Promise<RelayAnswer> {
  const { env } = process;
  if (env['CNI_COMMAND'] === 'VERSION') return { stdout: formatVersionAnswer(), exitCode: 0 };
  const note = (sentence: string): void => writeAll(2, `aether-cni: ${sentence}\n`);
  const alone = async (read: () => Promise<Uint8Array>): Promise<RelayAnswer> =>
    (await import('./plugin-alone.ts')).answerAlone({ env, readStdin: read }, { note });
  const { isForAgent, relayCall } = await import('./plugin-relay.ts');
  if (!isForAgent(env, [process.argv0, process.execPath])) return alone(readStdin);
  const reading = readStdin();
  const stdin = await reading.catch(() => undefined);
  const reply = stdin === undefined ? undefined : await relayCall(env, stdin);
  if (reply?.kind === 'answer') return reply;
  if (reply?.kind !== 'unknown') return alone(() => reading);
  // The runtime answers an ADD that failed with a DEL, which undoes whatever was done.
  const reason = new AgentError('unavailable', 'ADD: the node agent took the call and gave no answer; try again later');
  return { stdout: formatErrorObject(toErrorObject(reason)), exitCode: 1 };
}

function crashAnswer(thrown: unknown): RelayAnswer {
  const stderr = `aether-cni: ${thrown instanceof Error ? (thrown.stack ?? thrown.message) : messageOf(thrown)}\n`;
  if (process.env['CNI_COMMAND'] === 'DEL') return { stdout: '', stderr, exitCode: 0 };
  return { stdout: formatErrorObject(toErrorObject(thrown)), stderr, exitCode: 1 };
}

function finish({ stdout, stderr = '', exitCode }: RelayAnswer): never {
  writeAll(2, stderr);
  writeAll(1, stdout);
  process.exit(exitCode);
}

/** Bytes of stdin until its end; one more than may be taken is as far as it reads. The relay waits as long. */
async function readStdin(): Promise<Buffer> {
  const { stdin } = process;
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  const stop = (): unknown => stdin.destroy(new Error('it stays open'));
  // A process that got no processor time sees its timers first and what came meanwhile only then: look once more.
  const stopIfIdle = (): void => {
    const seenBytes = sizeBytes;
    setImmediate(() => (sizeBytes > seenBytes ? timers.idle.refresh() : stop()));
  };
  const timers = { idle: setTimeout(stopIfIdle, STDIN_IDLE_MS), total: setTimeout(stop, STDIN_TOTAL_MS) };
  try {
    for await (const chunk of stdin) {
      // Without an encoding stdin gives buffers.
      chunks.push(chunk as Buffer);
      sizeBytes += (chunk as Buffer).length;
      if (sizeBytes > CONFIG_MAX_BYTES) break;
      timers.idle.refresh();
    }
  } catch (error) {
    // DEL goes on with what came.
    if (process.env['CNI_COMMAND'] !== 'DEL') {
      throw new StoreError(`reading stdin: ${messageOf(error)}`, { cause: error });
    }
  } finally {
    clearTimeout(timers.idle);
    clearTimeout(timers.total);
  }
  return Buffer.concat(chunks);
}

// Synchronous, so that nothing is lost at exit. A pipe may be non-blocking: wait for its reader, but not for ever. In steps
// and not by the clock, which Node would load for every call.
function writeAll(fd: number, text: string | Buffer): void {
  const bytes = Buffer.from(text);
  let leftMs = WRITE_MS;
  for (let done = 0; done < bytes.length; ) {
    try {
      done += writeSync(fd, bytes, done);
    } catch (error) {
      const isBusy = error instanceof Error && 'code' in error && error.code === 'EAGAIN';
      // Closed, or full for seconds: there is nobody to tell.
      if (!isBusy || leftMs <= 0) return;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
      leftMs--;
    }
  }
}
