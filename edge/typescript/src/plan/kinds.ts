/** Kinds of attributes beside categories: numbers, and options of a choice. */

import { PlanError } from "../errors.js";
import type { Json } from "../json.js";
import type { Source } from "../random.js";
import { seen } from "../text.js";

const MAX_OPTIONS = 256;
const MAX_EDGES = 4_096;
const DECIMAL = /^-?(0|[1-9]\d{0,17})(\.\d{1,18})?$/;

/** Code of a value of a record; undefined where it has none. A grid reads 8 random bytes. */
export type Coder = (value: unknown, source: Source) => number | undefined;

type Fields = ReadonlyMap<string, Json>;

/** Read a number: its labels and its codes; `canonical` becomes false where a field is left out. */
export function readNumber(entry: Fields, where: string, canonical: { value: boolean }): [readonly string[], Coder] {
  const texts = entry.get("edges");
  const spelled = (text: Json): text is string => typeof text === "string" && DECIMAL.test(text);
  const edges = Array.isArray(texts) ? texts.map(Number) : [];
  const rise = edges.every((edge, i) => !(edge <= edges[i - 1]!));
  if (!Array.isArray(texts) || !texts.every(spelled) || !rise || edges.length < 2 || edges.length > MAX_EDGES) {
    throw new PlanError(`${where}.edges: expected 2 to ${MAX_EDGES} rising numbers in strings`);
  }
  const field = <T extends Json>(name: string, standard: T) => (entry.has(name) ? entry.get(name) : standard);
  const [unit, rounding] = [field("unit", ""), field("rounding", "bin")];
  const [below, above] = [field("below", false), field("above", false)];
  const grid = rounding === "grid";
  const known = grid ? below === false && above === false : rounding === "bin";
  if (!known || typeof unit !== "string" || !seen(unit) || typeof below !== "boolean" || typeof above !== "boolean") {
    throw new PlanError(`${where}: unit, rounding, below, above`);
  }
  const whole = entry.has("unit") && entry.has("rounding");
  if (!whole || entry.has("below") === grid || entry.has("above") === grid) canonical.value = false;
  const bins = texts.slice(1).map((edge, i) => `${texts[i]}..${edge}`);
  if (below) bins.unshift(`<${texts[0]}`);
  if (above) bins.push(`${texts[texts.length - 1]}+`);
  const labels = grid ? texts : bins;
  const coder: Coder = (value, source) => {
    // An integer beyond all numbers is beyond all edges.
    if (!Number.isFinite(value) && typeof value !== "bigint") return undefined;
    const number = Number(value);
    if (grid) return point(edges, within(number, edges[0]!, edges[edges.length - 1]!), source);
    return within(lastAtMost(edges, number) + Number(below), 0, bins.length - 1);
  };
  return [labels, coder];
}

/** One of the two neighbours of a value within the edges, with its mean. */
function point(edges: readonly number[], value: number, source: Source): number {
  const low = Math.min(lastAtMost(edges, value), edges.length - 2);
  const share = (value - edges[low]!) / (edges[low + 1]! - edges[low]!);
  const bytes = source.bytes(8);
  const words = new DataView(bytes.buffer, bytes.byteOffset);
  const drawn = words.getUint32(4, true) * 2 ** 21 + (words.getUint32(0, true) >>> 11);
  return low + Number(drawn < Math.floor(share * 2 ** 53));
}

function within(value: number, low: number, high: number): number {
  return Math.min(Math.max(value, low), high);
}

/** Place of the last edge that is at most the value; -1 where there is none. */
function lastAtMost(edges: readonly number[], value: number): number {
  const after = edges.findIndex((edge) => edge > value);
  return (after < 0 ? edges.length : after) - 1;
}

/** Read a choice: its options, each with its codes, 1 where a list has the option. */
export function readOptions(entry: Fields, where: string, canonical: { value: boolean }): [string, Coder][] {
  const options = entry.get("options");
  const other = entry.get("other");
  const isText = (option: Json): option is string => typeof option === "string" && option !== "";
  const most = Array.isArray(options) && options.every(isText) ? new Set(options).size : 0;
  if (!Array.isArray(options) || !most || most > MAX_OPTIONS || most < options.length) {
    throw new PlanError(`${where}.options: expected 1 to ${MAX_OPTIONS} different strings, not empty`);
  }
  if (other === null) canonical.value = false;
  else if (other !== undefined && !options.includes(other)) throw new PlanError(`${where}.other: not one of the options`);
  return (options as string[]).map((option) => [
    option,
    (value) => {
      if (!Array.isArray(value)) return undefined;
      const unknown = option === other && value.some((one) => !options.includes(one as Json));
      return Number(unknown || value.includes(option));
    },
  ]);
}
