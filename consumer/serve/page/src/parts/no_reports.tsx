/** Windows without reports: offers the newest ones that have some. */

import { useSession } from "../state/context";
import { useResource } from "../state/hooks";
import { withReports } from "../text/windows";
import { span } from "../text/format";
import { Empty, Loading } from "./states";

const WINDOWS = 1000;

export function NoReports({ onWindows }: { onWindows: (windows: string) => void }) {
  const { client, plan, version } = useSession();
  const found = useResource(`reports ${plan.digest}`, version, (signal) => client.windows(plan.name, WINDOWS, signal));
  if (!found.data && !found.error) return <Loading lines={3} />;
  const newest = withReports(found.data?.finals ?? []).at(-1);
  return (
    <Empty title="No reports in these windows">
      {newest ? (
        <>
          The newest window with reports is window {newest.window}, {span(newest.start, newest.end)}.
          <span class="choices">
            <button type="button" class="primary" onClick={() => onWindows(String(newest.window))}>
              Show window {newest.window}
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
