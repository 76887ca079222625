import { Limit } from "./limit";
import type {
  Answer,
  Associations,
  ChangeTests,
  Plan,
  PlanEntry,
  Question,
  Series,
  Summary,
  WindowList,
  WordShares,
} from "./types";

/** The server refused, or did not answer (`status` 0). The message is a sentence for people. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    detail: string,
    /** Seconds after which the same request may succeed; 0 where it will not. */
    readonly retryAfter = 0,
    /** The server's word for it, as docs/serving.md lists them. */
    readonly reason = "",
  ) {
    super(detail || title);
  }
}

/** Relative to the page: a proxy may serve both below a path of its own. */
const PLANS = "v1/plans";
/** Seconds until a server that did not answer is asked again. */
const SILENT_RETRY = 5;
/** Longest wait for an answer. A server says after 20 seconds, by default, that an answer takes longer. */
const LONGEST_ANSWER_MS = 60_000;

/** Parameters of a request; of a list, one parameter each. */
type Words = Readonly<Record<string, string | readonly string[]>>;

/** Requests to the server that sent the page. The token stays in memory. */
export class Client {
  token = "";
  /** Called when a request for results lacks a valid token. */
  onUnauthorized: () => void = () => undefined;

  plans(signal: AbortSignal): Promise<{ readonly plans: readonly PlanEntry[] }> {
    return this.get(PLANS, {}, signal);
  }

  plan(name: string, signal: AbortSignal): Promise<Plan> {
    return this.get(path(name), {}, signal);
  }

  windows(name: string, limit: number, signal: AbortSignal): Promise<WindowList> {
    return this.get(path(name, "windows"), { limit: String(limit) }, signal);
  }

  table(name: string, question: Question, signal: AbortSignal): Promise<Answer> {
    return this.get(path(name, "tables"), questionWords(question), signal);
  }

  words(name: string, text: string, candidates: string, given: string, signal: AbortSignal): Promise<WordShares> {
    return this.get(path(name, "words"), { text, candidates, given }, signal);
  }

  series(name: string, attributes: readonly string[], windows: string, signal: AbortSignal): Promise<Series> {
    return this.get(path(name, "series"), { attributes, windows }, signal);
  }

  summary(
    name: string,
    { attributes, given, statistics }: Readonly<Record<"attributes" | "given" | "statistics", readonly string[]>>,
    windows: string,
    signal: AbortSignal,
  ): Promise<Summary> {
    const words = { attributes, given, statistics: statistics.join(","), windows };
    return this.get(path(name, "summaries"), words, signal);
  }

  associations(name: string, windows: string, signal: AbortSignal): Promise<Associations> {
    return this.get(path(name, "associations"), { windows }, signal);
  }

  /** Tests of a window against an earlier one. */
  changes(name: string, window: number, against: number, signal: AbortSignal): Promise<ChangeTests> {
    return this.get(path(name, "changes"), { window: String(window), against: String(against) }, signal);
  }

  /** A request whose answer is neither JSON nor short: files. */
  async open(address: string, signal: AbortSignal): Promise<Response> {
    const headers = this.token ? { Authorization: `Bearer ${this.token}` } : {};
    let response: Response;
    try {
      response = await fetch(address, { headers, signal, credentials: "omit" });
    } catch (error) {
      if (signal.aborted) throw error;
      throw silent();
    }
    if (response.status === 401 && address !== PLANS) this.onUnauthorized();
    if (!response.ok) throw await refusal(response);
    return response;
  }

  private async get<T>(where: string, words: Words, signal: AbortSignal): Promise<T> {
    const limit = new Limit(signal, LONGEST_ANSWER_MS);
    try {
      return await json<T>(await this.open(address(where, words), limit.signal), limit.signal);
    } catch (error) {
      throw limit.expired ? silent() : error;
    } finally {
      limit.end();
    }
  }
}

async function json<T>(response: Response, signal: AbortSignal): Promise<T> {
  try {
    return (await response.json()) as T;
  } catch (error) {
    if (signal.aborted) throw error;
    throw new Problem(response.status, "Unreadable answer", "The answer of the server ended early or is no JSON.");
  }
}

function silent(): Problem {
  return new Problem(0, "The server does not answer", "", SILENT_RETRY);
}

export function path(plan: string, part = ""): string {
  return `${PLANS}/${encodeURIComponent(plan)}${part && `/${part}`}`;
}

export function address(where: string, words: Words): string {
  const every = Object.entries(words).flatMap(([name, value]) => listed(value).map((one) => [name, one]));
  const text = new URLSearchParams(every.filter(([, value]) => value !== "")).toString();
  return text ? `${where}?${text}` : where;
}

/** Names without commas share a parameter, which is shorter to read. */
function listed(value: string | readonly string[]): readonly string[] {
  if (typeof value === "string") return [value];
  return value.some((name) => name.includes(",")) ? value : [value.join(",")];
}

/** The parameters of a question; empty ones are left out of the address. */
export function questionWords(question: Question): Words {
  return {
    attributes: question.attributes,
    windows: question.windows,
    minus: question.minus,
    group: question.group,
    given: question.given,
  };
}

async function refusal(response: Response): Promise<Problem> {
  const fallback = `The server answered ${response.status}`;
  const again = Number(response.headers.get("retry-after") ?? 0) || 0;
  try {
    const body = (await response.json()) as { title?: unknown; detail?: unknown; reason?: unknown };
    return new Problem(response.status, text(body.title, fallback), text(body.detail, ""), again, text(body.reason, ""));
  } catch {
    return new Problem(response.status, fallback, "", again);
  }
}

function text(value: unknown, otherwise: string): string {
  return typeof value === "string" && value !== "" ? value : otherwise;
}
