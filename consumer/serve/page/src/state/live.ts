/** What the server announces, as long as the page is visible. */

import { useEffect, useState } from "preact/hooks";
import type { Client } from "../api/client";
import { follow, type Connection, type LiveEvent } from "../api/events";
import type { Plan } from "../api/types";

export interface Live {
  /** Grows with every final or total that the server announces. */
  readonly version: number;
  /** Grows with every event, early ones too. */
  readonly pulse: number;
  readonly newest: number | null;
  readonly connection: Connection;
}

/**
 * Follow the events of a plan. `known` is the newest window when the page began to ask for results. A hidden page lets its connection go, because a browser opens only six to a server.
 */
export function useLive(client: Client, plan: Plan, known: number | null): Live {
  const [news, setNews] = useState({ version: 0, pulse: 0, newest: null as number | null });
  const [connection, setConnection] = useState<Connection>("connecting");
  useEffect(() => {
    let first = true;
    let controller: AbortController | undefined;
    const take = (event: LiveEvent) => {
      const early = event.kind === "early";
      // A first greeting may say nothing new; later ones follow a connection that ended.
      const isNew = !early && !(event.kind === "hello" && first && event.window === known);
      first = false;
      setNews((old) => ({
        version: old.version + (isNew ? 1 : 0),
        pulse: old.pulse + (isNew || early ? 1 : 0),
        newest: early ? old.newest : (event.window ?? old.newest),
      }));
    };
    const change = () => {
      controller?.abort();
      if (document.hidden) return;
      controller = new AbortController();
      void follow(client, plan.name, controller.signal, take, setConnection);
    };
    change();
    document.addEventListener("visibilitychange", change);
    return () => {
      document.removeEventListener("visibilitychange", change);
      controller?.abort();
    };
  }, [plan.digest]);
  return { ...news, connection };
}
