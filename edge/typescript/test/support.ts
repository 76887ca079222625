/** A plan and an operator for tests, made from integers and texts alone. */

import { concat, hex, sha256, toBase64, utf8, type Bytes } from "../src/bytes.js";
import { signedLineage } from "../src/signed/envelope.js";

export const START = 1_700_000_000;
export const WINDOW = 60;

/** JSON with sorted fields, as Python writes it. */
export function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const fields = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${fields.map(([name, each]) => `${JSON.stringify(name)}:${canonical(each)}`).join()}}`;
}

/** The document of a small plan; `changes` replace its fields. */
export function document(changes: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    version: 1, name: "test", purpose: "testing", owner: "tests", lineage: "5d0f2c9b".repeat(4),
    domain: [
      { name: "colour", labels: ["red", "green", "blue"], other: "blue" },
      { name: "size", labels: ["1", "2"] },
    ],
    epsilon: "1", lineage_epsilon: "1", guarantee: { kind: "once", windows: 1 }, k: 1,
    method: { name: "calm", parameters: {} },
    groups: [
      { mechanism: { name: "grr", cells: 6 }, views: [{ attributes: [0, 1], share: 2 }] },
      {
        mechanism: { name: "oue", cells: 3 },
        views: [{ attributes: [0], share: 1 }, { attributes: [0], share: 1 }],
      },
    ],
    start: START, expires: START + 100 * WINDOW, window: WINDOW, grace: 10, skew: 10, partitions: 1, wire: 1,
    users: 100, marginals: [[0], [0, 1]], limits: { batch_reports: 1024, batches: 16384 },
    ...changes,
  };
}

/** A plan without signature. */
export function unsigned(changes: Record<string, unknown> = {}): Bytes {
  return utf8(canonical(document(changes)));
}

/** Keys of an operator, made for one test. */
export class Operator {
  private constructor(
    readonly root: string,
    private readonly rootKey: CryptoKey,
    private readonly key: string,
    private readonly signingKey: CryptoKey,
  ) {}

  static async make(): Promise<Operator> {
    const pairs = await Promise.all(
      [0, 1].map(async () => (await crypto.subtle.generateKey({ name: "Ed25519" }, true, ["sign", "verify"])) as CryptoKeyPair),
    );
    const [root, key] = await Promise.all(
      pairs.map(async ({ publicKey }) => hex(new Uint8Array(await crypto.subtle.exportKey("raw", publicKey)))),
    );
    return new Operator(root!, pairs[0]!.privateKey, key!, pairs[1]!.privateKey);
  }

  /** The envelope of a plan with this operator's lineage. */
  async sign(changes: Record<string, unknown> = {}, notAfter = START + 10 ** 8): Promise<Bytes> {
    const name = String(changes.lineage_name ?? "lineage");
    const lineage = hex(await signedLineage(this.root, name));
    const plan = utf8(canonical(document({ lineage_name: name, lineage, ...changes })));
    const stated = {
      v: "certificate-1", root: this.root, key: this.key, owner: "Example Ltd", not_before: START - 10 ** 6, not_after: notAfter,
    };
    const statement = utf8(canonical(stated));
    const over = await sha256(statement);
    const rootSignature = await made(this.rootKey, concat(utf8("calmstream/certificate/1\0"), over));
    const signature = await made(this.signingKey, concat(utf8("calmstream/plan/1\0"), over, await sha256(plan)));
    return utf8(
      JSON.stringify({
        v: "signed-1", plan: toBase64(plan),
        certificate: { statement: toBase64(statement), signature: toBase64(rootSignature) },
        signature: toBase64(signature),
      }),
    );
  }
}

async function made(key: CryptoKey, message: Bytes): Promise<Bytes> {
  return new Uint8Array(await crypto.subtle.sign({ name: "Ed25519" }, key, message));
}

/** A clock that tests set, in milliseconds. */
export class Clock {
  now = START * 1000;

  read = (): number => this.now;

  /** Go to some seconds after the plan's start. */
  at(seconds: number): void {
    this.now = (START + seconds) * 1000;
  }
}

