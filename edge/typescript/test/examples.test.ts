/** The examples that every language must answer alike: docs/wire-examples.json, docs/signed-examples.json. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fromBase64, hex, unhex, utf8, copied } from "../src/bytes.js";
import { PlanRefused } from "../src/errors.js";
import { windowAt } from "../src/device/ledger.js";
import { perturb, type DeviceRecord } from "../src/device/perturb.js";
import { place, word } from "../src/device/place.js";
import { policyOf, type PolicyInput } from "../src/device/policy.js";
import { encode } from "../src/device/report.js";
import { readAccepted, standing } from "../src/device/acceptance.js";
import { NOTHING, added, fits } from "../src/device/totals.js";
import { bucket } from "../src/mechanisms/hashing.js";
import { bucketOf } from "../src/plan/hashed.js";
import { readAny, readPlan } from "../src/plan/plan.js";
import { GivenSource } from "../src/random.js";
import { signedLineage, verifies } from "../src/signed/envelope.js";
import { seen } from "../src/text.js";
import { weight } from "../src/weights.js";

const ROOT = new URL("../../../../", import.meta.url);
const read = (name: string) => JSON.parse(readFileSync(new URL(`docs/${name}`, ROOT), "utf8"));
const wire = read("wire-examples.json");
const signed = read("signed-examples.json");

test("weights", () => {
  for (const [epsilon, expected] of Object.entries(wire.weights)) assert.equal(weight(epsilon), BigInt(expected as number));
});

test("hashes", () => {
  for (const each of wire.hashes) assert.equal(bucket(each.seed, each.cell, each.count), each.bucket);
});

test("buckets of texts", async () => {
  assert.ok(wire.texts.length >= 14);
  for (const each of wire.texts) {
    const { name, hash: place, buckets, lineage, text } = each;
    assert.equal((await bucketOf({ name, place, buckets }, lineage, text)) ?? null, each.bucket);
  }
});

test("places", async () => {
  const { plan } = await readAny(copied(readFileSync(new URL(wire.plan.file, ROOT))));
  for (const each of wire.assignments) {
    const secret = unhex(each.secret);
    assert.equal((await word(secret, plan.lineage, "group")).toString(16).padStart(16, "0"), each.group_word);
    assert.equal((await word(secret, plan.lineage, "slot")).toString(16).padStart(16, "0"), each.slot_word);
    assert.deepEqual(await place(plan, secret), { group: each.group, view: each.view, slot: each.slot });
  }
});

test("reports", async () => {
  assert.ok(wire.reports.cases.length >= 20);
  const plans = await Promise.all(wire.reports.plans.map((plan: string) => readPlan(utf8(plan))));
  for (const each of wire.reports.cases) {
    const plan = plans[each.plan];
    const source = new GivenSource(unhex(each.random));
    const where = await place(plan, unhex(each.secret));
    const values = await perturb(plan, where, each.record as DeviceRecord, source);
    const made = encode(plan, where.group, windowAt(plan, each.now), where.view, values);
    assert.equal(hex(utf8(made)), each.report);
    assert.equal(source.left, 0);
  }
});

test("texts that people judge by", () => {
  for (const { points, seen: expected } of signed.texts) {
    const text = points.split(" ").filter(Boolean).map((point: string) => String.fromCodePoint(parseInt(point, 16)));
    assert.equal(seen(text.join("")), expected, points);
  }
});

test("keys and lineages", async () => {
  for (const each of signed.lineages) assert.equal(hex(await signedLineage(each.root, each.lineage_name)), each.lineage);
  for (const each of signed.keys) {
    // A signature of the private half is good for the public one, and for no other message.
    const pkcs8 = Uint8Array.from([...unhex("302e020100300506032b657004220420"), ...unhex(each.private)]);
    const key = await crypto.subtle.importKey("pkcs8", pkcs8, { name: "Ed25519" }, false, ["sign"]);
    const signature = new Uint8Array(await crypto.subtle.sign({ name: "Ed25519" }, key, utf8("m")));
    assert.equal(await verifies(each.public, signature, utf8("m")), true);
    assert.equal(await verifies(each.public, signature, utf8("n")), false);
  }
});

for (const each of signed.envelopes) {
  test(`envelope: ${each.name}`, async () => {
    const policy = policyOf(each.policy as PolicyInput);
    assert.equal(await reason(fromBase64(each.envelope)!, policy, each.now), each.refused);
  });
}

async function reason(raw: Uint8Array<ArrayBuffer>, policy: ReturnType<typeof policyOf>, now: number) {
  try {
    return standing(await readAccepted(raw, policy.roots, false), policy, now)?.reason ?? null;
  } catch (error) {
    assert.ok(error instanceof PlanRefused);
    return error.reason;
  }
}

for (const each of signed.ledgers) {
  test(`ledger: ${each.name}`, () => {
    const policy = policyOf(each.policy as PolicyInput);
    let totals = NOTHING;
    for (const step of each.steps) {
      assert.equal(fits(totals, policy, step.root, step.epsilon, step.now), step.status);
      if (step.status === "ready") totals = added(totals, step.ends, step.epsilon, step.root, step.now, policy);
    }
  });
}
