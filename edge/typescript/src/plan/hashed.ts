/** Hashed attributes: the bucket of a text under one of several public hashes. The same as estimators/hashed.py. */

import { concat, sha256, unhex, utf8, type Bytes } from "../bytes.js";
import { PlanError } from "../errors.js";
import type { Json } from "../json.js";

const MAX_HASHES = 64;
const MAX_BUCKETS = 4_096;
const MAX_TEXT = 1_024;
const WORDS = 8;

export interface Hashed {
  readonly name: string;
  /** The hash that the attribute is about, from 0. */
  readonly place: number;
  readonly buckets: number;
}

/** Read a hashed attribute: an entry for each of its hashes. */
export function readHashed(entry: ReadonlyMap<string, Json>, name: string, where: string): Hashed[] {
  const within = (value: unknown, least: number, most: number): value is number =>
    Number.isInteger(value) && (value as number) >= least && (value as number) <= most;
  const [buckets, hashes] = [entry.get("buckets"), entry.get("hashes")];
  if (!within(buckets, 2, MAX_BUCKETS) || !within(hashes, 1, MAX_HASHES)) {
    throw new PlanError(`${where}: expected 2 to ${MAX_BUCKETS} buckets and 1 to ${MAX_HASHES} hashes`);
  }
  return Array.from({ length: hashes }, (_, place) => ({ name, place, buckets }));
}

/** A text in NFC as UTF-8; undefined for what is no text, empty, too long or no Unicode. */
export function textBytes(value: unknown): Bytes | undefined {
  if (typeof value !== "string" || !value || value.length > MAX_TEXT) return undefined;
  if (/[\ud800-\udfff]/u.test(value) || utf8(value).length > MAX_TEXT) return undefined;
  return utf8(value.normalize("NFC"));
}

/** The bucket of a value; undefined where it is no text that counts. */
export async function bucketOf({ name, place, buckets }: Hashed, lineage: string, value: unknown): Promise<number | undefined> {
  const text = textBytes(value);
  if (!text) return undefined;
  const block = utf8(`${name}#${Math.floor(place / WORDS)}\0`);
  const digest = await sha256(concat(utf8("calmstream/1/hashed/"), unhex(lineage), block, text) as Bytes);
  const word = new DataView(digest.buffer).getUint32(4 * (place % WORDS));
  return Math.floor((word * buckets) / 2 ** 32);
}
