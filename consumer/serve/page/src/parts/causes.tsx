/** The hidden causes that the data supports: how often labels occur without and with each. */

import type { Cause } from "../api/types";
import { percent, Z95 } from "../text/format";
import { visible } from "../text/names";

const LABELS = 8;

export function Causes({ causes }: { causes: readonly Cause[] }) {
  if (!causes.length) return null;
  return (
    <section class="card causes" aria-label="Hidden causes">
      <h2>Hidden causes</h2>
      <p class="hint">
        A few unseen properties of people that explain what goes together. A bar leads from the proportion among people
        without the property to that among people with it.
      </p>
      <div class="cause-list">
        {causes.map((cause, i) => (
          <One key={i} cause={cause} number={i + 1} />
        ))}
      </div>
    </section>
  );
}

function One({ cause, number }: { cause: Cause; number: number }) {
  const ends = [-1, 1].map((side) => Math.min(1, Math.max(0, cause.share + side * Z95 * cause.stderr)));
  return (
    <article>
      <h3>Cause {number}</h3>
      <p class="hint">
        {percent(ends[0]!, 0)} to {percent(ends[1]!, 0)} of people have it · in {percent(cause.agreement, 0)} of the
        model’s draws
      </p>
      <ul class="ranked">
        {cause.labels.slice(0, LABELS).map((one) => (
          <li key={`${one.attribute}\n${one.label}`}>
            <span>
              {visible(one.attribute)}: {visible(one.label)}
            </span>
            <span class="number">
              {percent(one.without, 0)} → {percent(one.within, 0)}
            </span>
            <svg aria-hidden="true">
              <rect class="track" width="100%" height="100%" rx="3" />
              <rect
                class={one.within > one.without ? "bar" : "bar lowered"}
                x={`${100 * Math.min(one.without, one.within)}%`}
                width={`${100 * Math.abs(one.within - one.without)}%`}
                height="100%"
                rx="3"
              />
            </svg>
          </li>
        ))}
      </ul>
    </article>
  );
}
