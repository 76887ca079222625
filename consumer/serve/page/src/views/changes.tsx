/** What changed from the window before the newest to the newest, of those with reports. */

import type { Client } from "../api/client";
import type { ChangeTests, Plan } from "../api/types";
import { Empty, Loaded } from "../parts/states";
import { TestedChanges } from "../parts/tested_changes";
import { useSession } from "../state/context";
import { useResource } from "../state/hooks";
import { counted } from "../text/format";
import { withReports } from "../text/windows";

const WINDOWS = 1000;

interface Found {
  /** null where there are no two windows with reports. */
  readonly tests: ChangeTests | null;
  /** Number of newer windows, which have no reports. */
  readonly skipped: number;
}

export function Changes() {
  const { client, plan, newest } = useSession();
  const found = useResource(`changes ${plan.digest}`, newest, (signal) => load(client, plan, signal));
  return (
    <div class="changes">
      <header class="hero">
        <h1>What changed</h1>
        <p class="lead">The newest window with reports against the one before it.</p>
      </header>
      <Loaded of={found} lines={8}>
        {({ tests, skipped }) =>
          tests ? (
            <>
              {skipped > 0 && (
                <p class="notice" role="note">
                  {counted(skipped, "newer window")} received no reports.
                </p>
              )}
              <TestedChanges tests={tests} plan={plan} />
            </>
          ) : (
            <Empty title="Not yet">A comparison needs two windows with reports that are over.</Empty>
          )
        }
      </Loaded>
    </div>
  );
}

async function load(client: Client, plan: Plan, signal: AbortSignal): Promise<Found> {
  const { finals } = await client.windows(plan.name, WINDOWS, signal);
  const [older, newer] = withReports(finals).slice(-2);
  if (!older || !newer) return { tests: null, skipped: 0 };
  const tests = await client.changes(plan.name, newer.window, older.window, signal);
  return { tests, skipped: finals.at(-1)!.window - newer.window };
}
