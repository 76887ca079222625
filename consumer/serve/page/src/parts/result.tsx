/** An answer: what it is about, its warnings, and its cells as chart or table. */

import type { ComponentChildren } from "preact";
import { Names } from "./names";
import type { Answer, WindowSpan } from "../api/types";
import { mood, noise, panels } from "../charts/model";
import { counted, decimals, points, span, Z95, percent } from "../text/format";
import { Chart } from "./chart";
import { Flags } from "./flags";
import { Cells } from "./cells";

interface ResultProps {
  readonly answer: Answer;
  readonly shape: "chart" | "table";
  readonly onShape: (shape: "chart" | "table") => void;
  /** Stands above the cells. */
  readonly children?: ComponentChildren;
}

export function Result({ answer, shape, onShape, children }: ResultProps) {
  const change = answer.flags.includes("difference");
  const feeling = mood(answer.flags);
  const digits = decimals(answer.stderr);
  return (
    <article class={`card result ${feeling}`} aria-labelledby="result-title">
      <header>
        <div>
          <h2 id="result-title">
            <Names of={answer.attributes} />
          </h2>
          <p class="about">
            {answer.windows.map(about).join(" minus ")} · {counted(answer.reports, "report")}
          </p>
        </div>
        <Shapes shape={shape} onShape={onShape} />
      </header>
      <Flags flags={answer.flags} />
      {children}
      {shape === "chart" ? (
        <Chart answer={answer} change={change} mood={feeling} digits={digits} />
      ) : (
        <Cells answer={answer} change={change} digits={digits} />
      )}
      {shape === "chart" && (
        <Legend floor={Z95 * noise(answer.stderr)} digits={digits} change={change} one={panels(answer).length === 1} />
      )}
    </article>
  );
}

function about({ first, last, total, current, start, end }: WindowSpan, place: number): string {
  const one = first === last ? `Window ${first}` : `Windows ${first} to ${last}`;
  const which = total ? `All windows through ${last}` : current ? `Now, in window ${last}` : one;
  return `${place ? which.toLowerCase() : which} (${span(start, end)})`;
}

function Shapes({ shape, onShape }: Pick<ResultProps, "shape" | "onShape">) {
  return (
    <fieldset class="segments small">
      <legend class="sr">Shown as</legend>
      {(["chart", "table"] as const).map((one) => (
        <label key={one}>
          <input type="radio" name="shape" checked={shape === one} onChange={() => onShape(one)} />
          <span>{one === "chart" ? "Chart" : "Table"}</span>
        </label>
      ))}
    </fieldset>
  );
}

function Legend({ floor, digits, change, one }: { floor: number; digits: number; change: boolean; one: boolean }) {
  const size = change ? `±\u00a0${points(floor, digits).replace("+", "")} points` : percent(floor, digits);
  return (
    <p class="legend">
      <span>
        <i class="key bar" />
        estimate
      </span>
      <span>
        <i class="key whisker" />
        95 % interval
      </span>
      <span>
        <i class="key floor" />
        noise floor{one && `, ${size}`}
      </span>
      <span>
        <i class="key weak" />
        cannot be distinguished from zero
      </span>
    </p>
  );
}
