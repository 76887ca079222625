/** Whether there is something new, asked again and again while the page is visible. */

import { useEffect, useState } from "preact/hooks";
import { Problem, type Client } from "../api/client";
import type { Plan } from "../api/types";

export type Connection = "connecting" | "live" | "waiting" | "refused";

export interface Live {
  /** The newest final window; results are asked for again when it changes. */
  readonly newest: number | null;
  /** Changes with every set that the server has, early ones too. */
  readonly pulse: string;
  readonly connection: Connection;
}

const EVERY_MS = 3_000;

/** Ask for the newest windows of a plan. `known` is the newest one when the page began to ask for results. */
export function useLive(client: Client, plan: Plan, known: number | null): Live {
  const [news, setNews] = useState({ newest: known, pulse: "" });
  const [connection, setConnection] = useState<Connection>("connecting");
  useEffect(() => {
    const controller = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const ask = async () => {
      clearTimeout(timer);
      if (document.hidden) return;
      try {
        const { newest, early } = await client.windows(plan.name, 1, controller.signal);
        setNews((old) => ({ newest: newest ?? old.newest, pulse: JSON.stringify([newest, early]) }));
        setConnection("live");
      } catch (error) {
        if (controller.signal.aborted) return;
        if (error instanceof Problem && [401, 403, 404].includes(error.status)) return setConnection("refused");
        setConnection("waiting");
      }
      clearTimeout(timer);
      timer = setTimeout(ask, EVERY_MS);
    };
    const again = () => void ask();
    again();
    document.addEventListener("visibilitychange", again);
    addEventListener("online", again);
    return () => {
      controller.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", again);
      removeEventListener("online", again);
    };
  }, [plan.digest]);
  return { ...news, connection };
}
