/** The bars of an answer; long tables begin with their largest labels. */

import { useState } from "preact/hooks";
import type { Answer, Attribute } from "../api/types";
import { Bars } from "../charts/bars";
import { heights, scaleOf, type Scale } from "../charts/bins";
import { Histogram } from "../charts/histogram";
import {
  extent,
  noise,
  numberLast,
  ordered,
  panels,
  type Mood,
  type Order,
  type Panel,
  type Row,
} from "../charts/model";
import { useSession } from "../state/context";
import { count, Z95 } from "../text/format";
import { visible } from "../text/names";

const ROWS = 20;
const PANELS = 12;
const MORE = 100;

interface ChartProps {
  readonly answer: Answer;
  readonly change: boolean;
  readonly mood: Mood;
  readonly digits: number;
}

export function Chart(props: ChartProps) {
  const { attributes } = useSession().plan;
  const answer = numberLast(props.answer, attributes);
  const number = attributes.find((one) => one.name === answer.attributes.at(-1));
  const scale = !props.change && sameLabels(number, answer) ? scaleOf(number) : null;
  if (scale && number) return <Histograms {...props} answer={answer} attribute={number} scale={scale} />;
  return <BarPanels {...props} />;
}

/** Whether the last labels of an answer are all those of an attribute, so none are grouped. */
function sameLabels(attribute: Attribute | undefined, answer: Answer): boolean {
  return attribute?.labels.join("\n") === answer.labels.at(-1)?.join("\n");
}

function Histograms({
  answer,
  attribute,
  scale,
  mood,
  digits,
}: ChartProps & { attribute: Attribute; scale: Scale }) {
  const [limit, setLimit] = useState(PANELS);
  const all = panels(answer);
  const top = Math.max(1e-6, ...all.flatMap((panel) => heights(scale, panel.rows, Z95).map((bar) => bar.high)));
  return (
    <div class={all.length > 1 ? "panels" : "panels single"}>
      {all.slice(0, limit).map((panel) => (
        <section key={panel.title.join("\n")} class="panel">
          <Title panel={panel} names={answer.attributes} />
          <Histogram
            attribute={attribute}
            scale={scale}
            rows={panel.rows}
            caption={titleOf(panel, answer.attributes)}
            top={top}
            digits={digits}
            mood={mood}
          />
        </section>
      ))}
      <MorePanels shown={limit} all={all.length} onMore={() => setLimit(limit + MORE)} />
    </div>
  );
}

function BarPanels(props: ChartProps) {
  const { answer, change } = props;
  const all = panels(answer);
  const rows = all.flatMap((panel) => panel.rows);
  const long = (answer.labels.at(-1)?.length ?? 0) > ROWS;
  const [order, setOrder] = useState<Order>(long ? "size" : "plan");
  const [limit, setLimit] = useState(PANELS);
  const domain = extent(rows, change);
  return (
    <div class={all.length > 1 ? "panels" : "panels single"}>
      {rows.length > 2 && <Orders order={order} onOrder={setOrder} />}
      {all.slice(0, limit).map((panel) => (
        <OnePanel
          key={panel.title.join("\n")}
          panel={panel}
          names={answer.attributes}
          order={order}
          domain={domain}
          {...props}
        />
      ))}
      <MorePanels shown={limit} all={all.length} onMore={() => setLimit(limit + MORE)} />
    </div>
  );
}

function MorePanels({ shown, all, onMore }: { shown: number; all: number; onMore: () => void }) {
  if (all <= shown) return null;
  return (
    <button type="button" class="more" onClick={onMore}>
      Show {count(Math.min(MORE, all - shown))} more of {count(all)} panels
    </button>
  );
}

function Orders({ order, onOrder }: { order: Order; onOrder: (order: Order) => void }) {
  return (
    <fieldset class="segments small orders">
      <legend class="sr">Order of labels</legend>
      {(
        [
          ["plan", "In order"],
          ["size", "By size"],
        ] as const
      ).map(([name, label]) => (
        <label key={name}>
          <input type="radio" name="order" checked={order === name} onChange={() => onOrder(name)} />
          <span>{label}</span>
        </label>
      ))}
    </fieldset>
  );
}

interface PanelProps extends ChartProps {
  readonly panel: Panel;
  readonly names: readonly string[];
  readonly order: Order;
  readonly domain: readonly [number, number];
}

function OnePanel({ panel, names, order, domain, change, mood, digits }: PanelProps) {
  const [limit, setLimit] = useState(ROWS);
  const rows = ordered(panel.rows, order);
  const hidden = rows.slice(limit);
  const shown = rows.slice(0, limit);
  return (
    <section class="panel">
      <Title panel={panel} names={names} />
      <Bars
        rows={shown}
        caption={titleOf(panel, names)}
        domain={domain}
        noise={noise(panel.rows.map((row) => row.stderr))}
        digits={digits}
        mood={mood}
        change={change}
      />
      {hidden.length > 0 && <Rest hidden={hidden} change={change} onMore={() => setLimit(limit + MORE)} />}
    </section>
  );
}

function titleOf(panel: Panel, names: readonly string[]): string {
  return panel.title.map((label, i) => `${names[i]}: ${label}`).join(", ") || `Table of ${names[0]}`;
}

function Title({ panel, names }: { panel: Panel; names: readonly string[] }) {
  if (!panel.title.length) return null;
  return (
    <h3>
      {panel.title.map((label, i) => (
        <span key={i}>
          <small>
            <bdi>{visible(names[i]!)}</bdi>
          </small>{" "}
          <bdi>{visible(label)}</bdi>
        </span>
      ))}
    </h3>
  );
}

/** What the rows that are not shown add up to. The errors of a sum are not known here. */
function Rest({ hidden, change, onMore }: { hidden: readonly Row[]; change: boolean; onMore: () => void }) {
  const sum = hidden.reduce((total, row) => total + row.value, 0);
  return (
    <p class="rest">
      <span>
        {count(hidden.length)} more labels{change ? "" : `, together ${(100 * sum).toFixed(1)} %`}
      </span>
      <button type="button" class="quiet" onClick={onMore}>
        Show {count(Math.min(MORE, hidden.length))} more
      </button>
    </p>
  );
}
