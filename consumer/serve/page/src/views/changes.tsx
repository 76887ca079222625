/** What changed from the window before the newest to the newest. */

import { Problem, type Client } from "../api/client";
import type { ChangeTests, Final, Plan } from "../api/types";
import { SimpleChanges, type Change, type Differences } from "../parts/simple_changes";
import { Empty, Loaded } from "../parts/states";
import { TestedChanges } from "../parts/tested_changes";
import { useSession } from "../state/context";
import { useResource } from "../state/hooks";
import { queued } from "../state/queue";

/** Attributes whose differences are asked for one by one. */
const MOST = 64;

interface Found {
  readonly tests: ChangeTests | null;
  readonly differences: Differences | null;
}

export function Changes() {
  const { client, plan, version } = useSession();
  const found = useResource(`changes ${plan.digest}`, version, (signal) => load(client, plan, signal));
  return (
    <div class="changes">
      <header class="hero">
        <h1>What changed</h1>
        <p class="lead">The newest window against the one before it.</p>
      </header>
      <Loaded of={found} lines={8}>
        {({ tests, differences }) => {
          if (tests) return <TestedChanges tests={tests} plan={plan} />;
          return differences ? (
            <SimpleChanges data={differences} plan={plan} />
          ) : (
            <Empty title="Not yet">A comparison needs two windows that are over.</Empty>
          );
        }}
      </Loaded>
    </div>
  );
}

async function load(client: Client, plan: Plan, signal: AbortSignal): Promise<Found> {
  const { finals } = await client.windows(plan.name, 2, signal);
  const [older, newer] = finals.slice(-2);
  if (!older || !newer) return { tests: null, differences: null };
  const tests = await client.changes(plan.name, signal);
  if (tests) return { tests, differences: null };
  const names = plan.attributes.slice(0, MOST).map((attribute) => attribute.name);
  const changes = await Promise.all(names.map((name) => difference(client, plan, name, older, newer, signal)));
  return { tests: null, differences: { newer, older, changes } };
}

async function difference(
  client: Client,
  plan: Plan,
  name: string,
  older: Final,
  newer: Final,
  signal: AbortSignal,
): Promise<Change> {
  const question = {
    attributes: [name],
    windows: String(newer.window),
    minus: String(older.window),
    group: "",
    given: [],
  };
  try {
    return { name, answer: await queued(signal, () => client.table(plan.name, question, signal)), why: "" };
  } catch (error) {
    // The page asks for everything again where the server asks for patience.
    if (signal.aborted || (error instanceof Problem && error.retryAfter > 0)) throw error;
    return { name, answer: null, why: (error as Error).message };
  }
}
