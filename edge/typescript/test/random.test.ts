/** Random integers and coins: exact bounds, bytes that are read, the system's generator. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { Coins } from "../src/draws.js";
import { GivenSource, SystemSource, fresh, uniform, uniformWide } from "../src/random.js";
import { parseEpsilon, shareWeight, weight } from "../src/weights.js";

const HIGH = new Uint8Array(64).fill(255);

test("words of a uniform integer have the stated lengths", () => {
  const read = (bound: number | bigint) => {
    const source = new GivenSource(new Uint8Array(64));
    assert.equal(Number(typeof bound === "number" ? uniform(bound, source) : uniformWide(bound, source)), 0);
    return 64 - source.left;
  };
  for (const [bound, bytes] of [[1, 1], [2, 1], [256, 1], [257, 4], [512, 2], [65_536, 2], [3, 4], [65_535, 4]] as const) {
    assert.equal(read(bound), bytes, String(bound));
  }
  for (const [bound, bytes] of [[65_537n, 8], [1n << 17n, 4], [1n << 32n, 4], [1n << 33n, 8], [(1n << 62n) + 1n, 8]] as const) {
    assert.equal(read(bound), bytes, String(bound));
  }
});

test("words beyond the last whole multiple are thrown away", () => {
  assert.throws(() => uniform(3, new GivenSource(HIGH)), /used up/);
  assert.throws(() => uniformWide(10n ** 15n, new GivenSource(HIGH)), /used up/);
  assert.equal(uniform(3, new GivenSource(Uint8Array.of(255, 255, 255, 255, 7, 0, 0, 0))), 1);
  assert.equal(uniform(3, new GivenSource(Uint8Array.of(254, 255, 255, 255))), 2);
  assert.equal(uniformWide(1n << 62n, new GivenSource(HIGH)), (1n << 62n) - 1n);
});

test("integers beyond 2^53 are exact", () => {
  const word = Uint8Array.of(0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0x0f);
  assert.equal(uniformWide((1n << 62n) + 1n, new GivenSource(word)), 0x0fdebc9a78563412n);
});

test("the system's generator gives as many bytes as were asked for, and none twice", () => {
  const source = new SystemSource();
  for (const count of [0, 1, 17, 1024, 1025, 65_536, 65_537, 200_000]) assert.equal(source.bytes(count).length, count);
  const large = fresh(200_000);
  for (const from of [0, 65_536, 131_072, 199_900]) assert.ok(large.subarray(from, from + 100).some((byte) => byte));
  const seen = new Set(Array.from({ length: 2_000 }, () => source.bytes(16).join()));
  assert.equal(seen.size, 2_000);
});

test("bits beyond a row are 0", () => {
  const coins = new Coins(1n << 32n, weight("0.5"));
  for (let number = 0; number < 200; number++) assert.equal(coins.row(13, new SystemSource())[1]! >> 5, 0);
});

test("epsilon is a decimal number in a string, within bounds", () => {
  for (const good of ["0.001", "1", "128", "0.5", "9.99999999999999999999"]) assert.ok(parseEpsilon(good));
  for (const bad of ["", "0", "0.0009", "128.1", "1.", ".5", "01", "1e1", "+1", " 1", "١", 1, null, undefined, "1".repeat(30)]) {
    assert.throws(() => parseEpsilon(bad), /epsilon/);
  }
  assert.equal(weight("16"), 38_165_554_074_222_850n);
  assert.throws(() => weight("16.1"), /above 16/);
  assert.throws(() => shareWeight("100", 30, 60), /above 16/);
  assert.equal(shareWeight("3", 2, 6), weight("1"));
  assert.equal(shareWeight("3", 4, 6), weight("3", 3) ** 2n >> 32n);
});
