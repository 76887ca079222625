/** Windows without reports: offers the newest ones that have some. */

import { useSession } from "../state/context";
import { useResource } from "../state/hooks";
import { withReports } from "../text/windows";
import { span } from "../text/format";
import { Empty, Loading } from "./states";

const WINDOWS = 1000;

export function NoReports({ onWindows }: { onWindows: (windows: string) => void }) {
  const { client, plan, newest } = useSession();
  const found = useResource(`reports ${plan.digest}`, newest, (signal) => client.windows(plan.name, WINDOWS, signal));
  if (!found.data && !found.error) return <Loading lines={3} />;
  const last = withReports(found.data?.finals ?? []).at(-1);
  return (
    <Empty title="No reports in these windows">
      {last ? (
        <>
          The newest window with reports is window {last.window}, {span(last.start, last.end)}.
          <span class="choices">
            <button type="button" class="primary" onClick={() => onWindows(String(last.window))}>
              Show window {last.window}
            </button>
            <button type="button" onClick={() => onWindows("total")}>
              Show all windows
            </button>
          </span>
        </>
      ) : (
        "No window has any yet."
      )}
    </Empty>
  );
}
