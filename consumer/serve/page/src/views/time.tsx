/** Small multiples: every label over windows, with its band. */

import { Chooser } from "../parts/chooser";
import { Multiples } from "../parts/multiples";
import { Empty, Loaded } from "../parts/states";
import { useSession } from "../state/context";
import { useResource } from "../state/hooks";
import { link, replace } from "../state/route";
import { joined, separated } from "../text/names";

const MOST = 2;
const SPANS = [
  ["last:50", "Last 50"],
  ["last:200", "Last 200"],
  ["last:1000", "Last 1,000"],
] as const;

export function Time({ words }: { words: Readonly<Record<string, string>> }) {
  const { client, plan, newest } = useSession();
  const first = plan.attributes[0]?.name ?? "";
  const attributes = (words["attributes"] ? separated(words["attributes"]) : [first]).slice(0, MOST);
  const windows = words["windows"] || "last:50";
  const go = (names: readonly string[], range: string) =>
    replace(link(plan.name, "time", { attributes: joined(names), windows: range }));
  const series = useResource(`series ${plan.digest} ${joined(attributes)} ${windows}`, newest, (signal) =>
    client.series(plan.name, attributes, windows, signal),
  );
  return (
    <div class="split">
      <h1 class="sr">Over time</h1>
      <Chooser
        attributes={plan.attributes}
        chosen={attributes}
        most={MOST}
        onChange={(names) => go(names.length ? names : [first], windows)}
      />
      <div class="split-main">
        <Spans windows={windows} onChange={(range) => go(attributes, range)} />
        <Loaded of={series} lines={8}>
          {(found) =>
            found.windows.length ? (
              <Multiples series={found} seconds={plan.windows.seconds} />
            ) : (
              <Empty title="No window is over yet">The first one appears here by itself.</Empty>
            )
          }
        </Loaded>
      </div>
    </div>
  );
}

function Spans({ windows, onChange }: { windows: string; onChange: (windows: string) => void }) {
  const named = SPANS.some(([name]) => name === windows);
  return (
    <fieldset class="segments">
      <legend class="sr">Windows</legend>
      {SPANS.map(([name, label]) => (
        <label key={name}>
          <input type="radio" name="span" checked={windows === name} onChange={() => onChange(name)} />
          <span>{label}</span>
        </label>
      ))}
      {!named && (
        <label>
          <input type="radio" name="span" checked readOnly />
          <span>{windows}</span>
        </label>
      )}
    </fieldset>
  );
}
