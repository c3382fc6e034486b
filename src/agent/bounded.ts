// Waiting with an end: a check must come back whatever the thing that it looks at does.

/** What was waited for did not come. */
class OutOfTimeError extends Error {
  constructor(timeoutMs: number) {
    super(`no answer within ${Math.max(0, Math.round(timeoutMs))} ms`);
    this.name = 'OutOfTimeError';
  }
}

/** The promise, or a rejection with OutOfTimeError. What was begun goes on by itself; its end is nobody's then. */
export async function withinTime<T>(promise: Promise<T>, timeoutMs: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const end = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new OutOfTimeError(timeoutMs)), Math.max(0, timeoutMs));
  });
  try {
    return await Promise.race([promise, end]);
  } finally {
    clearTimeout(timer);
    promise.catch(() => {});
  }
}
