import type { Client } from "./client";
import { path, Problem } from "./client";
import { Limit } from "./limit";

export interface LiveEvent {
  readonly kind: "hello" | "final" | "total" | "early";
  readonly window: number | null;
}

export type Connection = "connecting" | "live" | "waiting" | "refused";

const SILENCE_MS = 45_000;
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 30_000;

/** Follow the events of a plan until `signal` aborts. Reconnects with growing pauses. */
export async function follow(
  client: Client,
  plan: string,
  signal: AbortSignal,
  onEvent: (event: LiveEvent) => void,
  onState: (state: Connection) => void,
): Promise<void> {
  let pause = FIRST_PAUSE_MS;
  while (!signal.aborted) {
    onState("connecting");
    try {
      await once(client, plan, signal, (event) => {
        pause = FIRST_PAUSE_MS;
        onState("live");
        onEvent(event);
      });
    } catch (error) {
      if (error instanceof Problem && [401, 403, 404].includes(error.status)) {
        onState("refused");
        return;
      }
    }
    if (signal.aborted) return;
    onState("waiting");
    await sleep(pause, signal);
    pause = Math.min(2 * pause, LONGEST_PAUSE_MS);
  }
}

async function once(
  client: Client,
  plan: string,
  signal: AbortSignal,
  onEvent: (event: LiveEvent) => void,
): Promise<void> {
  const limit = new Limit(signal, SILENCE_MS);
  try {
    const response = await client.open(path(plan, "events"), limit.signal);
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    const parse = parser(onEvent);
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      limit.again();
      parse(part.value);
    }
  } finally {
    limit.end();
  }
}

/** Return a function that takes text of an event stream in any pieces. */
export function parser(onEvent: (event: LiveEvent) => void): (text: string) => void {
  let rest = "";
  let kind = "";
  let data = "";
  return (text) => {
    const lines = (rest + text).split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop()!;
    for (const line of lines) {
      if (line === "") {
        const event = read(kind, data);
        if (event) onEvent(event);
        kind = data = "";
      } else if (line.startsWith("event:")) kind = line.slice(6).trim();
      else if (line.startsWith("data:")) data += line.slice(5).trim();
    }
  };
}

function read(kind: string, data: string): LiveEvent | undefined {
  if (kind !== "hello" && kind !== "final" && kind !== "total" && kind !== "early") return undefined;
  try {
    const body = JSON.parse(data) as { window?: number; newest?: number | null };
    return { kind, window: body.window ?? body.newest ?? null };
  } catch {
    return undefined;
  }
}

function sleep(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((done) => {
    const timer = setTimeout(done, milliseconds);
    const now = () => {
      clearTimeout(timer);
      done();
    };
    signal.addEventListener("abort", now, { once: true });
    globalThis.addEventListener("online", now, { once: true });
  });
}
