// A bounded number of actions at a time over a list.

/** Runs the action for each item, `parallel` at a time. Rejects with the first failure; nothing new is begun after it. */
export async function forEachOf<T>(
  items: readonly T[],
  parallel: number,
  action: (item: T) => Promise<void>,
): Promise<void> {
  const waiting = [...items];
  const worker = async (): Promise<void> => {
    try {
      for (let item = waiting.shift(); item !== undefined; item = waiting.shift()) await action(item);
    } catch (error) {
      waiting.length = 0;
      throw error;
    }
  };
  await Promise.all(Array.from({ length: Math.min(parallel, items.length) }, worker));
}
