/** Addresses within the page: `#/plan/view?question`. */

export const VIEWS = ["overview", "tables", "time", "associations", "changes"] as const;
export type View = (typeof VIEWS)[number];

export interface Route {
  /** Name or digest; empty for the first plan. */
  readonly plan: string;
  readonly view: View;
  readonly words: Readonly<Record<string, string>>;
}

export function readRoute(hash: string): Route {
  const [where = "", query = ""] = split(hash.replace(/^#?\/?/, ""), "?");
  const [plan = "", view = ""] = where.split("/");
  return {
    plan: decoded(plan),
    view: VIEWS.find((one) => one === view) ?? "overview",
    words: Object.fromEntries(new URLSearchParams(query)),
  };
}

export function link(plan: string, view: View, words: Readonly<Record<string, string>> = {}): string {
  const query = new URLSearchParams(Object.entries(words).filter(([, value]) => value !== "")).toString();
  return `#/${encodeURIComponent(plan)}/${view}${query && `?${query}`}`;
}

/** Change the address without a new entry in the history of the browser. */
export function replace(href: string): void {
  history.replaceState(null, "", href);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

function split(text: string, at: string): [string, string] {
  const index = text.indexOf(at);
  return index < 0 ? [text, ""] : [text.slice(0, index), text.slice(index + 1)];
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
