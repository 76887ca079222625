import assert from "node:assert/strict";
import { test } from "node:test";
import { PlanError } from "../src/errors.js";
import { Fraction, before, parse, type Json } from "../src/json.js";

function plain(value: Json): unknown {
  if (Array.isArray(value)) return value.map(plain);
  if (value instanceof Map) return Object.fromEntries([...value].map(([name, each]) => [name, plain(each)]));
  return value instanceof Fraction ? Number(value.spelled) : value;
}

const CANONICAL = [
  "null", "true", "[]", "{}", "0", "-1", "9007199254740991", "18446744073709551615", '""', '"a/ü𝄞\u007f"',
  '"\\"\\\\\\b\\f\\n\\r\\t\\u0000\\u001f"', '{"":0,"a":[1,2,{"b":null}],"aa":1,"ä":2,"\uffff":3,"𝄞":4}',
];
const OTHER = [
  " 1", "1\n", "[1, 2]", '{"a" :1}', "-0", '"\\/"', '"\\u0061"', '"\\u001F"', '"\\ud834\\udd1e"', '{"b":1,"a":2}',
  '{"𝄞":4,"\uffff":3}', '{"\uffff":3,"ä":1}',
];
const BROKEN = [
  "", " ", "nul", "01", "1.", ".5", "+1", "1e", "0x1", "NaN", "Infinity", "1e999", "'a'", '"', '"\n"', '"\\x"', '"\\u12"',
  '"\\ud834"', '"\\udd1e\\ud834"', '"\\ud834a"', "[1,]", "[,1]", "[1 2]", "[", "]", '{"a"}', '{"a":}', '{a:1}', '{"a":1,}',
  "1 1", "\ufeff1", "\u00a01", "\v1", "{}}", "true false",
];

for (const source of CANONICAL) {
  test(`canonical: ${source}`, () => {
    const { value, canonical, fractions } = parse(source);
    assert.equal(canonical, true);
    assert.equal(fractions, false);
    if (typeof value !== "bigint") assert.deepEqual(plain(value), JSON.parse(source));
  });
}

for (const source of OTHER) {
  test(`another spelling: ${JSON.stringify(source)}`, () => {
    const { value, canonical } = parse(source);
    assert.equal(canonical, false);
    assert.deepEqual(plain(value), source === "-0" ? 0 : JSON.parse(source));
  });
}

for (const source of BROKEN) {
  test(`not JSON: ${JSON.stringify(source)}`, () => {
    assert.throws(() => parse(source), PlanError);
  });
}

test("a field that stands twice", () => {
  for (const source of ['{"a":1,"a":1}', '{"a":1,"\\u0061":2}', '[{"b":{"a":1,"a":2}}]', '{"__proto__":1,"__proto__":2}']) {
    assert.throws(() => parse(source), /stands twice/);
  }
  assert.equal((parse('{"__proto__":1}').value as Map<string, Json>).get("__proto__"), 1);
});

test("fractions are noticed, and integers beyond 64 bits are no integers", () => {
  for (const source of ["1.0", "1e2", "[0.5]", "18446744073709551616", "-9223372036854775809", "123456789012345678901"]) {
    assert.equal(parse(source).fractions, true);
  }
  assert.equal(parse("9007199254740993").value, 9007199254740993n);
});

test("nesting and size are bounded", () => {
  assert.throws(() => parse("[".repeat(33)), /nested/);
  assert.ok(parse(`${"[".repeat(32)}${"]".repeat(32)}`));
  assert.throws(() => parse("[".repeat(8 << 20)), PlanError);
  assert.throws(() => parse(`[${"0,".repeat(1 << 20)}0]`), /values/);
  assert.throws(() => parse(`[${"[],".repeat(400_001)}0]`), /lists/);
});

test("texts are ordered by their UTF-8 bytes", () => {
  const texts = ["", "a", "aa", "b", "ä", "\ud7ff", "\ue000", "\uffff", "𐀀", "𐀁", "𝄞", "\u{10ffff}", "𐀀a"];
  for (const a of texts) {
    for (const b of texts) assert.equal(before(a, b), Buffer.compare(Buffer.from(a), Buffer.from(b)) < 0, `${a} ${b}`);
  }
});
