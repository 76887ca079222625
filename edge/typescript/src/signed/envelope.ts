/** Envelopes and certificates: docs/signed-plans.md. The same checks, in the same order, as in Python. */

import { concat, fromBase64, sha256, text, unhex, utf8, type Bytes } from "../bytes.js";
import { PlanRefused, UnsupportedError } from "../errors.js";
import { parse, type Json } from "../json.js";
import { seen } from "../text.js";

export const MAX_ENVELOPE_BYTES = 12 << 20;
const MAX_STATEMENT_BYTES = 4_096;
const MAX_TIME = 2 ** 40;
const KEY = /^[0-9a-f]{64}$/;

/** How often a character stands in an envelope. */
const COUNTS: readonly (readonly [string, number])[] = [
  ["{", 2], ["}", 2], [":", 6], [",", 4], ['"', 22], ["[", 0], ["\\", 0],
];

/** A plan with what proves its origin; nothing is verified yet. */
export interface Envelope {
  plan: Bytes;
  statement: Bytes;
  rootSignature: Bytes;
  signature: Bytes;
}

/** What a certificate states. */
export interface Statement {
  root: string;
  key: string;
  owner: string;
  notBefore: number;
  notAfter: number;
}

/** Return the envelope in these bytes; null where they have another form. */
export function readEnvelope(raw: Bytes): Envelope | null {
  if (raw.length > MAX_ENVELOPE_BYTES || !counted(raw)) return null;
  let document: Json;
  try {
    document = parse(text(raw)).value;
  } catch {
    return null;
  }
  const outer = texts(document, ["v", "plan", "signature"], ["certificate"]);
  if (!outer || outer.v !== "signed-1") return null;
  const inner = texts((document as Map<string, Json>).get("certificate"), ["statement", "signature"], []);
  if (!inner) return null;
  const plan = fromBase64(outer.plan!);
  const signature = fromBase64(outer.signature!);
  const statement = fromBase64(inner.statement!);
  const rootSignature = fromBase64(inner.signature!);
  if (!plan || !statement || signature?.length !== 64 || rootSignature?.length !== 64) return null;
  return { plan, statement, rootSignature, signature };
}

function counted(raw: Bytes): boolean {
  const found = new Uint32Array(256);
  for (const byte of raw) found[byte]!++;
  return COUNTS.every(([character, number]) => found[character.charCodeAt(0)] === number);
}

/** The texts of an object with exactly these fields; null for anything else. */
function texts(value: Json | undefined, names: string[], others: string[]): Record<string, string> | null {
  if (!(value instanceof Map) || value.size !== names.length + others.length) return null;
  const found: Record<string, string> = {};
  for (const name of names) {
    const each = value.get(name);
    if (typeof each !== "string") return null;
    found[name] = each;
  }
  return others.every((name) => value.has(name)) ? found : null;
}

/** Verify both signatures; dates and the plan are not looked at. Throws PlanRefused. */
export async function verify(envelope: Envelope, roots: readonly string[]): Promise<Statement> {
  const statement = readStatement(envelope.statement);
  if (!statement) throw new PlanRefused("bad_certificate", "the statement has another form");
  if (!roots.includes(statement.root)) {
    throw new PlanRefused("unknown_root", `the root ${statement.root} is not trusted here`);
  }
  const stated = await sha256(envelope.statement);
  const certified = concat(utf8("calmstream/certificate/1\0"), stated);
  if (!(await verifies(statement.root, envelope.rootSignature, certified))) {
    throw new PlanRefused("bad_certificate", "the root did not sign this certificate");
  }
  const signed = concat(utf8("calmstream/plan/1\0"), stated, await sha256(envelope.plan));
  if (!(await verifies(statement.key, envelope.signature, signed))) {
    throw new PlanRefused("bad_signature", "the certified key did not sign this plan");
  }
  return statement;
}

function readStatement(raw: Bytes): Statement | null {
  if (raw.length > MAX_STATEMENT_BYTES) return null;
  try {
    const { value, canonical } = parse(text(raw));
    return canonical ? statementOf(value) : null;
  } catch {
    return null;
  }
}

function statementOf(value: Json): Statement | null {
  const fields = texts(value, ["v", "root", "key", "owner"], ["not_before", "not_after"]);
  if (!fields || fields.v !== "certificate-1") return null;
  const [notBefore, notAfter] = ["not_before", "not_after"].map((name) => (value as Map<string, Json>).get(name));
  if (typeof notBefore !== "number" || typeof notAfter !== "number") return null;
  const { root, key, owner } = fields as { root: string; key: string; owner: string };
  const length = [...owner].length;
  if (!KEY.test(root) || !KEY.test(key) || length < 1 || length > 128 || !seen(owner)) return null;
  if (notBefore < 0 || notBefore > notAfter || notAfter > MAX_TIME) return null;
  return { root, key, owner, notBefore, notAfter };
}

/** Whether a key may sign at a second since the epoch. */
export function validAt(statement: Statement, second: number): boolean {
  return statement.notBefore <= second && second <= statement.notAfter;
}

/** Whether an Ed25519 signature is good. Throws UnsupportedError where the runtime lacks Ed25519. */
export async function verifies(publicKey: string, signature: Bytes, message: Bytes): Promise<boolean> {
  let key: CryptoKey;
  try {
    key = await crypto.subtle.importKey("raw", unhex(publicKey), { name: "Ed25519" }, false, ["verify"]);
  } catch (error) {
    // Runtimes that know Ed25519 refuse a key with a DataError.
    if (error instanceof Error && error.name === "DataError") return false;
    throw new UnsupportedError("this runtime has no Ed25519 in WebCrypto: Node 20, Chromium 137, Firefox 129, Safari 17");
  }
  return crypto.subtle.verify({ name: "Ed25519" }, key, signature, message);
}

/** The lineage of a signed plan, 32 hexadecimal digits, from the root's public key and a name. */
export async function signedLineage(root: string, name: string): Promise<Bytes> {
  const framed = [utf8("calmstream/lineage/1"), unhex(root), utf8(name)].map((field) => {
    const length = new Uint8Array(4);
    new DataView(length.buffer).setUint32(0, field.length);
    return concat(length, field);
  });
  return (await sha256(concat(...framed))).slice(0, 16);
}
