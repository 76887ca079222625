/** A gateway for tests: the contract of docs/gateway.md over memory, with scripted failures. */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { fromBase64, hex, sha256, utf8, type Bytes } from "../src/bytes.js";

/** What a scripted answer to one POST is. */
export interface Answer {
  status: number;
  headers?: Record<string, string>;
  body?: unknown;
  /** The reports are taken all the same: an answer that gets lost, or a wrong status. */
  takes?: boolean;
  /** The connection is cut without an answer. */
  cut?: boolean;
}

export class TestGateway {
  /** Envelopes by digest. */
  readonly plans = new Map<string, Bytes>();
  /** Reports by id; the first bytes win. */
  readonly taken = new Map<string, string>();
  /** Every line of every POST, in order. */
  readonly lines: string[] = [];
  readonly requests: { method: string; url: string; headers: IncomingMessage["headers"] }[] = [];
  /** Answers to the next POSTs; without one, reports are accepted. */
  readonly script: Answer[] = [];
  /** Files of the page, by path. */
  readonly files = new Map<string, { type: string; body: Uint8Array }>();

  private constructor(private readonly server: Server) {}

  static async start(port = 0): Promise<TestGateway> {
    const server = createServer();
    const gateway = new TestGateway(server);
    server.on("request", (request, response) => void gateway.handle(request, response));
    await new Promise<void>((done) => server.listen(port, "127.0.0.1", done));
    return gateway;
  }

  get base(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((done) => this.server.close(done));
  }

  /** Offer an envelope; returns the digest of its plan. */
  async offer(envelope: Bytes): Promise<string> {
    const { plan } = JSON.parse(new TextDecoder().decode(envelope)) as { plan: string };
    const digest = hex(await sha256(fromBase64(plan)!));
    this.plans.set(digest, envelope);
    return digest;
  }

  private async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = request.url ?? "";
    this.requests.push({ method: request.method ?? "", url, headers: request.headers });
    let body = "";
    for await (const part of request) body += String(part);
    const file = this.files.get(url);
    if (file) return void response.writeHead(200, { "content-type": file.type }).end(file.body);
    const reports = /^\/v1\/plans\/([0-9a-f]{64})\/reports$/.exec(url);
    if (reports && request.method === "POST") return this.reports(reports[1]!, body, response);
    if (url === "/v1/plans") {
      return json(response, 200, { plans: [...this.plans].map(([digest, envelope]) => listed(digest, envelope)) });
    }
    const envelope = this.plans.get(url.replace("/v1/plans/", ""));
    if (envelope) return void response.writeHead(200, { "content-type": "application/json" }).end(envelope);
    return problem(response, 404, "unknown_plan");
  }

  private reports(digest: string, body: string, response: ServerResponse): void {
    const scripted = this.script.shift();
    const lines = body.split("\n").filter((line) => line);
    this.lines.push(...lines);
    if (!scripted || scripted.takes) {
      const results = lines.map((line) => this.take(digest, line));
      if (!scripted) return json(response, 202, { results });
    }
    if (scripted.cut) return void response.destroy();
    const headers = { "content-type": "application/problem+json", ...scripted.headers };
    response.writeHead(scripted.status, headers).end(utf8(JSON.stringify(scripted.body ?? {})));
  }

  private take(digest: string, line: string): { id: string; result: string } {
    const { id, report } = JSON.parse(line) as { id: string; report: { plan: string } };
    if (report.plan !== digest) return { id, result: "unknown_plan" };
    if (this.taken.has(id)) return { id, result: "duplicate" };
    this.taken.set(id, line);
    return { id, result: "accepted" };
  }
}

function listed(digest: string, envelope: Bytes): { digest: string; name: string } {
  const { plan } = JSON.parse(new TextDecoder().decode(envelope)) as { plan: string };
  const { name } = JSON.parse(new TextDecoder().decode(fromBase64(plan)!)) as { name: string };
  return { digest, name };
}

function json(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}

function problem(response: ServerResponse, status: number, reason: string): void {
  response.writeHead(status, { "content-type": "application/problem+json" }).end(JSON.stringify({ status, reason }));
}
