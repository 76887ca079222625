/** Reports per window, newest at the right. */

import type { Final } from "../api/types";
import { count, counted, short, span } from "../text/format";

const MOST = 200;
/** Width of a column in rem where there are few. */
const WIDEST = 5;
/** Columns for which there is room in any case. */
const FEWEST = 4;

export function Timeline({ finals }: { finals: readonly Final[] }) {
  const shown = finals.slice(-MOST);
  const top = Math.max(1, ...shown.map((f) => f.reports));
  const wide = 100 / Math.max(shown.length, FEWEST);
  return (
    <figure class="timeline" style={{ maxWidth: `${WIDEST * Math.max(shown.length, FEWEST)}rem` }}>
      <div class="timeline-plot">
        <span class="timeline-top" aria-hidden="true">
          {short(top)}
        </span>
        <svg role="img" aria-label={summary(shown)}>
          <line class="grid" x1="0" x2="100%" y1="0.5" y2="0.5" />
          {shown.map((final, i) => (
            <Column key={final.window} final={final} x={i * wide} wide={wide} top={top} />
          ))}
          <line class="base" x1="0" x2="100%" y1="100%" y2="100%" />
        </svg>
      </div>
      <figcaption>
        <span>window {shown[0]!.window}</span>
        <span class="legend-row">
          {shown.some((f) => f.reports === 0) && (
            <span>
              <i class="key none" />
              no reports
            </span>
          )}
          {shown.some((f) => f.suspicious) && (
            <span>
              <i class="key suspicious" />
              counts look forged
            </span>
          )}
        </span>
        {shown.length > 1 && <span>window {shown.at(-1)!.window}</span>}
      </figcaption>
    </figure>
  );
}

function Column({ final, x, wide, top }: { final: Final; x: number; wide: number; top: number }) {
  const height = final.reports === 0 ? 2 : Math.max(2, (100 * final.reports) / top);
  const kind = final.reports === 0 ? "none" : final.suspicious ? "suspicious" : "plain";
  return (
    <g>
      <rect
        class={`column ${kind}`}
        x={`${x}%`}
        width={`${0.78 * wide}%`}
        y={`${100 - height}%`}
        height={`${height}%`}
      />
      <rect class="hit" x={`${x}%`} width={`${wide}%`} y="0" height="100%">
        <title>{title(final)}</title>
      </rect>
    </g>
  );
}

function title(final: Final): string {
  const records = Object.values(final.rejected).reduce((sum, n) => sum + n, 0);
  const rejected = records ? `, ${counted(records, "record")} rejected` : "";
  return `Window ${final.window}: ${span(final.start, final.end)}, ${counted(final.reports, "report")}${rejected}${final.suspicious ? ", counts look forged" : ""}`;
}

function summary(finals: readonly Final[]): string {
  const reports = finals.map((f) => f.reports);
  const few = Math.min(...reports);
  const many = Math.max(...reports);
  const forged = finals.filter((f) => f.suspicious).length;
  return `Reports in each of the last ${finals.length} windows: ${count(few)} to ${count(many)}${forged ? `; ${counted(forged, "window")} with counts that look forged` : ""}.`;
}
