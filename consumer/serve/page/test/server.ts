/** A server with the built page and made-up plans, in the form of `calmstream serve`. */

import { readFileSync, readdirSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { PlanEntry } from "../src/api/types";
import { answer, associations, changes, plans, series, summary, windowList, type Made } from "./data";

const ASSETS = process.env["CALMSTREAM_PAGE_ASSETS"] ?? fileURLToPath(new URL("../../../assets", import.meta.url));
export const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
  "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const TYPES: Readonly<Record<string, string>> = {
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  css: "text/css; charset=utf-8",
  woff2: "font/woff2",
  txt: "text/plain; charset=utf-8",
};

/** A refusal as the server writes it. */
class Refusal extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    detail: string,
    readonly reason = "other",
  ) {
    super(detail);
  }
}

export class PageServer {
  /** What the next requests below /v1 get instead of an answer: a status, or 0 for a broken connection. */
  failure: number | null = null;
  /** Whether requests below /v1 get no answer at all. */
  silent = false;
  token = "";
  private readonly plans = plans();

  private constructor(private readonly server: Server) {}

  static async start(port = 0): Promise<PageServer> {
    const server = createServer();
    const own = new PageServer(server);
    server.on("request", (request, response) => own.respond(request, response));
    await new Promise<void>((done) => server.listen(port, "127.0.0.1", done));
    return own;
  }

  get address(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  /** Let a window be over. */
  finish(name: string): void {
    this.plan(name).windows += 1;
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((done) => this.server.close(done));
  }

  private respond(request: IncomingMessage, response: ServerResponse): void {
    const url = new URL(request.url!, "http://server");
    response.setHeader("content-security-policy", POLICY);
    response.setHeader("x-content-type-options", "nosniff");
    try {
      if (!url.pathname.startsWith("/v1")) return file(url.pathname, response);
      if (this.silent) return;
      if (this.failure === 0) return void request.socket.destroy();
      if (this.failure !== null)
        throw new Refusal(this.failure, "Too many requests are in progress.", "at most 64 at once");
      if (this.token && request.headers.authorization !== `Bearer ${this.token}`)
        throw new Refusal(401, "The token is missing or wrong.", "");
      this.answer(url, response);
    } catch (error) {
      const { status, title, message, reason } =
        error instanceof Refusal ? error : new Refusal(500, "The server has a defect.", String(error));
      response.writeHead(status, {
        "content-type": "application/problem+json",
        ...(status === 503 ? { "retry-after": "1" } : {}),
      });
      response.end(JSON.stringify({ type: `urn:calmstream:problem:${reason}`, reason, title, status, detail: message }));
    }
  }

  private answer(url: URL, response: ServerResponse): void {
    const [name = "", part = ""] = url.pathname.split("/").slice(3).map(decodeURIComponent);
    if (!name) return json(response, { plans: this.plans.map(entry) });
    const one = this.plan(name);
    json(response, document(one, part, url.searchParams), url.searchParams.get("format"));
  }

  private plan(name: string): Made {
    const found = this.plans.find((one) => one.plan.name === name || one.plan.digest === name);
    if (!found)
      throw new Refusal(404, "This server has no such plan.", `This server has no plan ${JSON.stringify(name)}.`);
    return found;
  }
}

function document(one: Made, part: string, words: URLSearchParams): unknown {
  if (part === "")
    return { ...one.plan, namespace: "demo", topics: { snapshots: "demo.snapshots", counts: "demo.counts" } };
  if (part === "windows") return windowList(one, Number(words.get("limit") ?? 200));
  if (!["tables", "series", "associations", "summaries", "changes"].includes(part))
    throw new Refusal(404, "There is nothing at this address.", "");
  if (!one.windows) throw new Refusal(404, "The window is not final.", "no window is final yet");
  if (part === "changes") {
    const [window] = range(one, words.get("window") ?? "latest");
    return changes(one, window, Number(words.get("against")) || window - 1);
  }
  if (part === "associations") return associations(one);
  const names = list(words, "attributes", one);
  if (part === "series") return series(one, names, Number((words.get("windows") ?? "last:50").replace("last:", "")));
  const [first, last, total] = range(one, words.get("windows") ?? "total");
  if (part === "summaries") {
    const statistics = (words.get("statistics") ?? "mean,median").split(",");
    return summary(one, names, words.get("given") ? list(words, "given", one) : [], statistics, last);
  }
  const minus = words.get("minus") ? range(one, words.get("minus")!)[0] : undefined;
  if (first === last && one.reports(last) === 0)
    throw new Refusal(404, "There are no reports.", `window ${last} received no reports`, "no_reports");
  return answer(one, names, first, last, total, words.get("given") ? list(words, "given", one) : [], minus, words.get("windows") === "current");
}

function entry(one: Made): PlanEntry {
  const { name, digest, owner, purpose, method, epsilon } = one.plan;
  return { name, digest, owner, purpose, method, epsilon, newest: one.windows ? one.windows - 1 : null };
}

function list(words: URLSearchParams, key: string, one: Made): string[] {
  const all = words.getAll(key);
  const known = (name: string) => one.plan.attributes.some((a) => a.name === name);
  const names = all.length > 1 || known(all[0]!) ? all : all[0]!.split(",");
  for (const name of names)
    if (!known(name))
      throw new Refusal(422, "The question cannot be answered.", `unknown attribute ${JSON.stringify(name)}`);
  return names;
}

function range(one: Made, text: string): [number, number, boolean] {
  if (text === "total") return [0, one.windows - 1, true];
  const [first, last] = text === "latest" || text === "current" ? [one.windows - 1, one.windows - 1] : text.split("..").map(Number);
  if (!Number.isInteger(first))
    throw new Refusal(
      400,
      "The question is malformed.",
      `windows '${text}': expected current, total, latest, a number, I..J or DATE..DATE`,
    );
  if ((last ?? first)! >= one.windows)
    throw new Refusal(
      404,
      "The window is not final.",
      `windows '${text}': the newest final window is ${one.windows - 1}`,
    );
  return [first!, last ?? first!, false];
}

function file(path: string, response: ServerResponse): void {
  const name = path === "/" ? "index.html" : path.replace("/assets/", "");
  if (!readdirSync(ASSETS).includes(name)) throw new Refusal(404, "There is nothing at this address.", "");
  response.writeHead(200, { "content-type": TYPES[name.split(".").at(-1)!]! });
  response.end(readFileSync(join(ASSETS, name)));
}

function json(response: ServerResponse, body: unknown, format: string | null = null): void {
  if (format === "csv") {
    response.writeHead(200, { "content-type": "text/csv", "content-disposition": 'attachment; filename="table.csv"' });
    response.end("a,value\n");
    return;
  }
  response.writeHead(200, { "content-type": "application/json" });
  response.end(JSON.stringify(body));
}
