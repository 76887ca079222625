/** A device reports whatever the value of a number, of ordered labels or of a list is. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryStore, Reporter } from "../src/index.js";
import { GivenSource } from "../src/random.js";
import { Clock, unsigned } from "./support.js";

const DOMAIN = [
  { name: "ms", kind: "number", unit: "ms", edges: ["1", "10", "100"], below: true, above: true, rounding: "bin", other: "unknown" },
  { name: "age", kind: "number", unit: "years", edges: ["18", "50", "90"], rounding: "grid" },
  { name: "size", kind: "ordered", labels: ["s", "m", "l"], other: "m" },
  { name: "apps", kind: "choices", options: ["mail", "rest"], other: "rest" },
  { name: "tags", kind: "choices", options: ["new"] },
];
const CODES = [5, 3, 3, 2, 2, 2];
const FIELDS = ["ms", "age", "size", "apps", "apps", "tags"];
const [MS, AGE, SIZE, MAIL, REST, NEW] = [0, 1, 2, 3, 4, 5];
/** There is no code for the value, so the device draws one. */
const RANDOM = null;

/** The code that a device reports: with zeros as random bytes, a report keeps the true value. */
async function reported(attribute: number, record: Record<string, unknown>): Promise<number> {
  const plan = unsigned({
    domain: DOMAIN, marginals: [[attribute]],
    groups: [{ mechanism: { name: "grr", cells: CODES[attribute] }, views: [{ attributes: [attribute], share: 1 }] }],
  });
  const options = { clock: new Clock().read, allowUnsigned: true, source: new GivenSource(new Uint8Array(64)) };
  const report = await (await Reporter.open(plan, new MemoryStore(), options)).report(record);
  assert.ok(report, "no report");
  return report.values["v"] as number;
}

const hostile = new Proxy({}, { get: () => { throw new Error("no"); }, has: () => { throw new Error("no"); } });
const many = (value: unknown) => Array.from({ length: 100_000 }, () => value);
const CASES: [number, unknown, number | null][] = [
  [MS, 50, 2],
  // Beyond the edges, and of another unit's magnitude.
  [MS, -1e300, 0], [MS, 0.05, 0], [MS, 5e10, 3], [MS, 10n ** 400n, 3],
  [MS, NaN, 4], [MS, Infinity, 4], [MS, -Infinity, 4], [MS, "50", 4], [MS, "", 4], [MS, null, 4], [MS, undefined, 4],
  [MS, true, 4], [MS, [50], 4], [MS, { ms: 50 }, 4], [MS, new Date(), 4], [MS, Symbol("50"), 4], [MS, () => 50, 4], [MS, hostile, 4],
  [AGE, 17.9, 0], [AGE, 1e9, 2], [AGE, -5, 0], [AGE, 90, 2],
  [AGE, NaN, RANDOM], [AGE, Infinity, RANDOM], [AGE, "40", RANDOM], [AGE, [], RANDOM],
  [SIZE, "l", 2], [SIZE, "xl", 1], [SIZE, 3, 1], [SIZE, null, 1], [SIZE, ["l"], 1], [SIZE, NaN, 1],
  [MAIL, [], 0], [MAIL, ["mail"], 1], [MAIL, many("mail"), 1], [MAIL, many("games"), 0], [MAIL, "mail", RANDOM],
  [MAIL, null, RANDOM], [MAIL, 7, RANDOM], [MAIL, new Set(["mail"]), RANDOM], [MAIL, hostile, RANDOM],
  [REST, many("games"), 1], [REST, [null], 1], [REST, [["mail"]], 1], [REST, [hostile], 1], [REST, [], 0], [REST, ["mail"], 0],
  [NEW, ["games"], 0], [NEW, ["new", "games"], 1], [NEW, {}, RANDOM],
];

test("every value gives a report", async () => {
  for (const [attribute, value, code] of CASES) {
    const found = await reported(attribute, { [FIELDS[attribute]!]: value });
    assert.ok(Number.isInteger(found) && found >= 0 && found < CODES[attribute]!, `${FIELDS[attribute]}: ${found}`);
    if (code !== RANDOM) assert.equal(found, code, `${FIELDS[attribute]} ${typeof value}`);
  }
});

test("a record without the field gives a report", async () => {
  for (const attribute of CODES.keys()) assert.ok((await reported(attribute, {})) < CODES[attribute]!);
});
