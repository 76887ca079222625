import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Client } from "../api/client";
import type { Plan } from "../api/types";
import type { Connection } from "./live";

export interface Session {
  readonly client: Client;
  readonly plan: Plan;
  /** The newest final window; results are asked for again when it changes. */
  readonly newest: number | null;
  /** Changes with every set that the server has, early ones too. */
  readonly pulse: string;
  readonly connection: Connection;
}

export const SessionContext = createContext<Session | null>(null);

export function useSession(): Session {
  const session = useContext(SessionContext);
  if (!session) throw new Error("no session");
  return session;
}
