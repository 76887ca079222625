import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Client } from "../api/client";
import type { Plan } from "../api/types";
import type { Connection } from "../api/events";

export interface Session {
  readonly client: Client;
  readonly plan: Plan;
  /** Grows with every final or total that the server announces. */
  readonly version: number;
  /** Grows with every event, early ones too. */
  readonly pulse: number;
  readonly connection: Connection;
}

export const SessionContext = createContext<Session | null>(null);

export function useSession(): Session {
  const session = useContext(SessionContext);
  if (!session) throw new Error("no session");
  return session;
}
