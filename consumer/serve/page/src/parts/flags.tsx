/** Flags of an answer: warnings that nobody can overlook, and the others in a line. */

import { meaning, NOISE, SUSPICIOUS } from "../text/flags";

const WARNINGS = [SUSPICIOUS, NOISE, "uniform"];
const HEADINGS: Readonly<Record<string, string>> = {
  [SUSPICIOUS]: "Suspicious: the counts look forged",
  [NOISE]: "Noise: too few reports for this table",
  uniform: "No reports about these attributes",
};

export function Flags({ flags }: { flags: readonly string[] }) {
  const warnings = WARNINGS.filter((flag) => flags.includes(flag));
  const others = flags.filter((flag) => !WARNINGS.includes(flag));
  return (
    <>
      {warnings.map((flag) => (
        <div key={flag} class={`warning ${flag === SUSPICIOUS ? "suspicious" : "noise"}`} role="note">
          <svg viewBox="0 0 20 20" aria-hidden="true">
            <path d="M10 2.5 18.5 17h-17z" />
            <path class="mark" d="M10 8v4.2M10 14.4v.2" />
          </svg>
          <div>
            <strong>{HEADINGS[flag]}</strong>
            <p>{meaning(flag)}</p>
          </div>
        </div>
      ))}
      {others.length > 0 && (
        <details class="flags">
          <summary>
            Flags:{" "}
            {others.map((flag) => (
              <span key={flag} class="flag">
                {flag}
              </span>
            ))}
          </summary>
          <dl>
            {others.map((flag) => (
              <div key={flag}>
                <dt>{flag}</dt>
                <dd>{meaning(flag)}</dd>
              </div>
            ))}
          </dl>
        </details>
      )}
    </>
  );
}
