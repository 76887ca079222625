/**
 * Counts outputs: `node frequencies.mjs CASES ANSWERS`, one JSON object a line.
 *
 * A case is a mechanism's document, epsilon, an input and a number of reports. The answer has the
 * outputs as codes (the columns' values as digits, the first column highest) with their counts.
 */

import { readFileSync, writeFileSync } from "node:fs";
import { parse, type JsonObject } from "../../src/json.js";
import type { Column, Mechanism, Values } from "../../src/mechanisms/base.js";
import { build } from "../../src/mechanisms/registry.js";
import { SystemSource } from "../../src/random.js";

function digit({ name, kind, bound }: Column, values: Values): [number, number] {
  const value = values[name]!;
  if (kind === "int") return [value as number, Number(bound)];
  return [(value as Uint8Array).reduceRight((whole, byte) => whole * 256 + byte, 0), 2 ** Number(bound)];
}

function code(mechanism: Mechanism, values: Values): number {
  return mechanism.columns.reduce((whole, column) => {
    const [value, base] = digit(column, values);
    return whole * base + value;
  }, 0);
}

function counted(line: string): Record<string, number> {
  const { mechanism: document, epsilon, x, n } = Object.fromEntries(parse(line).value as JsonObject);
  const mechanism = build(document as JsonObject, epsilon as string);
  const source = new SystemSource();
  const found: Record<string, number> = {};
  for (let i = 0; i < (n as number); i++) {
    const output = code(mechanism, mechanism.perturb(BigInt(x as number), source));
    found[output] = (found[output] ?? 0) + 1;
  }
  return found;
}

const [cases, answers] = process.argv.slice(2) as [string, string];
const lines = readFileSync(cases, "utf8").split("\n").filter((line) => line);
writeFileSync(answers, lines.map((line) => `${JSON.stringify(counted(line))}\n`).join(""));
