/** A gateway over HTTP: lists plans, hands out envelopes, takes reports. */

import { hex, sha256, type Bytes } from "../bytes.js";
import type { Waiting } from "../device/ledger.js";
import { GatewayError, PlanError } from "../errors.js";
import { MAX_ENVELOPE_BYTES, readEnvelope } from "../signed/envelope.js";

const TIMEOUT_MS = 30_000;
const MAX_ANSWER_BYTES = 1 << 20;
/** The only answer with which a gateway takes reports. */
const ACCEPTED = 202;

export interface GatewayOptions {
  /** Sent with every request, for example an application key. */
  headers?: Readonly<Record<string, string>>;
  fetch?: typeof fetch;
}

/** A plan as the gateway lists it. */
export interface Listed {
  readonly digest: string;
  readonly name: string;
}

/** What became of one attempt to hand over a report. */
export type Outcome =
  | { kind: "taken" }
  | { kind: "refused"; reason: string }
  /** Try again, after so many milliseconds where the gateway said so. */
  | { kind: "later"; reason: string; after: number | null }
  /** Try again another time: the gateway does not take reports of this plan or application now. */
  | { kind: "not now"; reason: string };

export class Gateway {
  private readonly base: string;

  constructor(
    base: string,
    private readonly options: GatewayOptions = {},
  ) {
    this.base = base.replace(/\/+$/, "");
  }

  /** The gateway's plans that are not over, also unsigned ones where it offers them. Throws GatewayError. */
  async plans(): Promise<Listed[]> {
    const raw = await this.get("/v1/plans", MAX_ANSWER_BYTES);
    try {
      const { plans } = JSON.parse(new TextDecoder().decode(raw)) as { plans: Listed[] };
      if (plans.every(({ digest, name }) => typeof digest === "string" && typeof name === "string")) return plans;
    } catch {
      // Not the list of a gateway: the same as a list of something else.
    }
    throw new GatewayError("the gateway's list of plans has another form");
  }

  /** The envelope of a plan, or a plan without signature; throws PlanError where it is another plan, GatewayError. */
  async plan(digest: string): Promise<Bytes> {
    const raw = await this.get(`/v1/plans/${encodeURIComponent(digest)}`, MAX_ENVELOPE_BYTES);
    const plan = readEnvelope(raw)?.plan ?? raw;
    if (hex(await sha256(plan)) !== digest) throw new PlanError("the gateway sent another plan than was asked for");
    return raw;
  }

  /** Hand over one report, once. Never throws: a failure of the network is an outcome. */
  async post(waiting: Waiting): Promise<Outcome> {
    let answer: Response;
    try {
      answer = await this.request(this.reports(waiting), {
        ...post(waiting, this.options.headers),
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
    } catch (error) {
      return { kind: "later", reason: error instanceof Error ? error.name : "network", after: null };
    }
    return outcome(answer, waiting.id);
  }

  /** Start to hand over a report while the page goes away; nobody waits for the answer. */
  postLast(waiting: Waiting): void {
    const sent = this.request(this.reports(waiting), { ...post(waiting, this.options.headers), keepalive: true });
    sent.catch(() => undefined);
  }

  private reports({ digest }: Waiting): string {
    return `${this.base}/v1/plans/${digest}/reports`;
  }

  private async get(path: string, most: number): Promise<Bytes> {
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const headers = { ...this.options.headers };
    let answer: Response;
    let raw: Bytes;
    try {
      answer = await this.request(this.base + path, { ...QUIET, cache: "default", headers, signal });
      raw = new Uint8Array(await answer.arrayBuffer());
    } catch (error) {
      throw new GatewayError(`the gateway does not answer: ${error instanceof Error ? error.name : "network"}`);
    }
    if (!answer.ok) throw new GatewayError(`the gateway answers ${answer.status} to ${path}`);
    if (raw.length > most) throw new GatewayError(`the gateway sent ${raw.length} bytes for ${path}`);
    return raw;
  }

  private request(url: string, init: RequestInit): Promise<Response> {
    // A detached fetch: browsers refuse it as a method of another object.
    const request = this.options.fetch ?? globalThis.fetch;
    return request(url, init);
  }
}

/** Nothing about the person goes along: no cookies, no referrer, no other host. */
const QUIET = { credentials: "omit", referrerPolicy: "no-referrer", redirect: "error" } as const;

/** The line that is sent, the same at every attempt. */
export function line(waiting: Pick<Waiting, "id" | "report">): string {
  return `{"id":"${waiting.id}","report":${waiting.report}}\n`;
}

function post(waiting: Waiting, headers: Readonly<Record<string, string>> = {}): RequestInit {
  return {
    ...QUIET,
    method: "POST",
    cache: "no-store",
    headers: { "content-type": "application/x-ndjson", ...headers },
    body: line(waiting),
  };
}

async function outcome(answer: Response, id: string): Promise<Outcome> {
  const { status } = answer;
  const body = await answer.json().catch(() => null) as { results?: unknown; reason?: unknown; title?: unknown } | null;
  if (status === ACCEPTED) return verdict(result(body?.results, id));
  const stated = [body?.reason, body?.title].find((text) => typeof text === "string") as string | undefined;
  const reason = `${status}${stated ? ` ${stated.slice(0, 100)}` : ""}`;
  // What else is no refusal is no gateway: a captive portal, for one.
  if (status < 400 || status === 408 || status === 425 || status === 429 || status >= 500) {
    return { kind: "later", reason, after: retryAfter(answer.headers.get("retry-after")) };
  }
  if (status === 401 || status === 403 || status === 404) return { kind: "not now", reason };
  const own = result(body?.results, id);
  return own ? verdict(own) : { kind: "refused", reason };
}

/** What an answer says of one report; empty where it says nothing. */
function result(results: unknown, id: string): string {
  if (!Array.isArray(results)) return "";
  const own = results.find((each: { id?: unknown } | null) => each?.id === id) as { result?: unknown } | undefined;
  return typeof own?.result === "string" ? own.result : "";
}

/** An acceptance takes the report, unless it gives a reason against it. */
function verdict(own: string): Outcome {
  if (!own || own === "accepted" || own === "duplicate") return { kind: "taken" };
  // This device's clock is ahead of the gateway's: the same report is in time later.
  if (own === "early") return { kind: "not now", reason: own };
  return { kind: "refused", reason: own.slice(0, 100) };
}

/** Milliseconds that a Retry-After header asks for, in seconds or as a date; null where it says nothing. */
export function retryAfter(header: string | null, now: number = Date.now()): number | null {
  if (header === null) return null;
  const after = /^[0-9]+$/.test(header) ? Number(header) * 1000 : Date.parse(header) - now;
  return Number.isFinite(after) ? Math.max(0, after) : null;
}
