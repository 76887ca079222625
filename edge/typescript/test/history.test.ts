/** What a history keeps, and how small it stays: the numbers of docs/signed-plans.md. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { utf8 } from "../src/bytes.js";
import { appended, attributeNames, shortened, valueFields, type Sent } from "../src/device/history.js";

async function sent(when: number, value = "{}", purpose = "testing"): Promise<Sent> {
  return {
    plan: "p", digest: "0".repeat(64), purpose, owner: "o", root: "", attributes: ["a"], ...(await valueFields(value)),
    epsilon: "1", when, remains: "7", remains_ever: null,
  };
}

test("at most 200 reports, the oldest go first", async () => {
  let all: readonly Sent[] = [];
  for (let when = 1; when <= 205; when++) all = appended(all, await sent(when));
  assert.deepEqual(all.map(({ when }) => when), Array.from({ length: 200 }, (_, i) => i + 6));
});

test("at most 256 KiB together", async () => {
  let all: readonly Sent[] = [];
  for (let when = 1; when <= 100; when++) all = appended(all, await sent(when, "x".repeat(4096)));
  const size = (each: readonly Sent[]) => each.reduce((sum, one) => sum + utf8(JSON.stringify(one)).length, 0);
  assert.ok(size(all) <= 256 << 10);
  assert.ok(size(all) + size(all.slice(0, 1)) > 256 << 10);
  assert.equal(all.at(-1)!.when, 100);
});

test("a long report is listed by its length and hash", async () => {
  const short = await valueFields("é".repeat(2048));
  assert.equal(short.value.length, 2048);
  const long = await valueFields("x".repeat(4097));
  assert.equal(long.value, "");
  assert.equal(long.value_bytes, 4097);
  assert.match(long.value_sha256, /^[0-9a-f]{64}$/);
});

test("texts of a plan are shortened by characters, names by number", () => {
  assert.equal(shortened("𝄞".repeat(500)), "𝄞".repeat(500));
  assert.equal(shortened("𝄞".repeat(501)), `${"𝄞".repeat(499)}…`);
  const names = Array.from({ length: 65 }, (_, i) => `a${i}`);
  assert.equal(attributeNames(names.slice(1)).length, 64);
  assert.deepEqual(attributeNames(names).slice(-2), ["a62", "…"]);
});
