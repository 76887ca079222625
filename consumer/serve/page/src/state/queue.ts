/** Run at most a few jobs at once, so that one page does not occupy the server. */

const AT_ONCE = 3;
let running = 0;
const waiting: (() => void)[] = [];

export async function queued<T>(signal: AbortSignal, job: () => Promise<T>): Promise<T> {
  while (running >= AT_ONCE) await new Promise<void>((start) => waiting.push(start));
  running += 1;
  try {
    signal.throwIfAborted();
    return await job();
  } finally {
    running -= 1;
    waiting.shift()?.();
  }
}
