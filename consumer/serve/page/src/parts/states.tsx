/** What stands where an answer will be, cannot be, or is about nothing. */

import type { ComponentChildren } from "preact";
import type { Resource } from "../state/hooks";
import type { Problem } from "../api/client";

/** Show an answer, or the state of its question. */
export function Loaded<T>({
  of,
  lines = 6,
  children,
  refused,
}: {
  of: Resource<T>;
  lines?: number;
  children: (data: T) => ComponentChildren;
  /** What stands there instead of a problem; nothing for the problem itself. */
  refused?: (problem: Problem) => ComponentChildren;
}) {
  if (of.error && of.data === undefined)
    return <>{refused?.(of.error) || <Refused problem={of.error} again={of.again} />}</>;
  if (of.data === undefined) return <Loading lines={lines} />;
  return (
    <div class={of.fresh ? "loaded" : "loaded stale"} aria-busy={!of.fresh}>
      {of.error && <Stale problem={of.error} again={of.again} />}
      {children(of.data)}
    </div>
  );
}

export function Loading({ lines }: { lines: number }) {
  return (
    <div class="loading" role="status">
      <span class="sr">Loading</span>
      {Array.from({ length: lines }, (_, i) => (
        <i key={i} />
      ))}
    </div>
  );
}

export function Refused({ problem, again }: { problem: Problem; again: () => void }) {
  return (
    <div class="state" role="alert">
      <h2>{heading(problem)}</h2>
      {problem.message !== problem.title && (
        <p>
          <bdi>{problem.message}</bdi>
        </p>
      )}
      {problem.retryAfter > 0 && <p>The page asks again by itself.</p>}
      <button type="button" onClick={again}>
        Try again
      </button>
    </div>
  );
}

function Stale({ problem, again }: { problem: Problem; again: () => void }) {
  return (
    <p class="notice" role="status">
      These are older numbers; the newest could not be loaded: {heading(problem)}.{" "}
      <button type="button" class="quiet" onClick={again}>
        Try again
      </button>
    </p>
  );
}

export function Empty({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <div class="state">
      <h2>{title}</h2>
      <p>{children}</p>
    </div>
  );
}

function heading({ title }: Problem): string {
  return title.replace(/\.$/, "");
}
