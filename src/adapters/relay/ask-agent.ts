// The other end of relay.sock in TypeScript: one call to the agent, as native/relay.c makes it. What matters is what may be
// done another way afterwards: `undone` says that the agent did nothing and never will, `unknown` that it may have.
import { connect } from 'node:net';
import { type DecodedAnswer, decodeAnswer } from '../../cni/relay-frame.ts';

export interface AskOptions {
  readonly socketPath: string;
  /** Until the agent takes the call. */
  readonly takeMs: number;
  /** Until the answer is complete. */
  readonly answerMs: number;
}

export type Reply =
  | Extract<DecodedAnswer, { readonly kind: 'answer' }>
  | { readonly kind: 'undone' }
  | { readonly kind: 'unknown' };

/** `request`: of encodeRequest(). Never rejects. */
export function askAgent(request: Buffer, { socketPath, takeMs, answerMs }: AskOptions): Promise<Reply> {
  return new Promise((resolve) => {
    const endMs = nowMs() + answerMs;
    const socket = connect(socketPath);
    let received = Buffer.alloc(0);
    let answer: DecodedAnswer = { kind: 'nothing' };
    let isSent = false;
    const settle = ({ isLate }: { readonly isLate: boolean }): void => {
      clearTimeout(timer);
      socket.destroy();
      resolve(toReply(answer, { mayBeTaken: isLate && isSent }));
    };
    // A process that got no processor time sees its timers first and what came meanwhile only then: look once more.
    const giveUp = (): void => {
      const seenBytes = received.length;
      setImmediate(() => {
        if (received.length === seenBytes) settle({ isLate: true });
      });
    };
    let timer = setTimeout(giveUp, Math.min(takeMs, answerMs));
    socket.on('connect', () => {
      isSent = true;
      socket.write(request);
    });
    socket.on('data', (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
      answer = decodeAnswer(received);
      clearTimeout(timer);
      if (answer.kind !== 'taken') settle({ isLate: false });
      else timer = setTimeout(giveUp, Math.max(1, endMs - nowMs()));
    });
    // `close` follows.
    socket.on('error', () => {});
    socket.on('close', () => settle({ isLate: false }));
  });
}

// performance.now() would load a module of Node's: a millisecond of a call that has 35.
function nowMs(): number {
  return process.uptime() * 1000;
}

// The agent acts on nothing before it has sent its marker, so a connection that it ended without one is as good as none. A
// marker may be under way where it is we who end it.
function toReply(answer: DecodedAnswer, { mayBeTaken }: { readonly mayBeTaken: boolean }): Reply {
  if (answer.kind === 'answer') return answer;
  const isUndone = answer.kind === 'refused' || (answer.kind === 'nothing' && !mayBeTaken);
  return { kind: isUndone ? 'undone' : 'unknown' };
}
