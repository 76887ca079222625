/** The Bloom filters of one axis: what each value sets, and how far two values are apart. */

import { PlanError } from "../errors.js";
import { bucket, popcount } from "./hashing.js";

export class Filters {
  /** Most bits in which the filters of two values differ. */
  readonly distance: number;
  /** Most bits that one filter sets. */
  readonly heaviest: number;

  constructor(
    private readonly axis: number,
    cardinality: number,
    private readonly bits: number,
    private readonly hashes: number,
  ) {
    const width = Math.ceil(bits / 32);
    const words = new Uint32Array(cardinality * width);
    const ones = new Uint16Array(cardinality);
    const seen = new Set<string>();
    for (let value = 0; value < cardinality; value++) {
      const places = this.places(value);
      ones[value] = places.length;
      seen.add(places.sort((a, b) => a - b).join());
      for (const place of places) words[value * width + (place >> 5)]! |= 1 << (place & 31);
    }
    if (seen.size < cardinality) throw new PlanError("bloom-rr: two values have the same filter: more bits or hashes");
    const order = Array.from(ones.keys()).sort((a, b) => ones[b]! - ones[a]!);
    this.heaviest = ones[order[0]!]!;
    this.distance = farthest(words, width, ones, order);
  }

  /** The bits that a value sets, each once. */
  places(value: number): number[] {
    const found: number[] = [];
    for (let j = 0; j < this.hashes; j++) {
      const place = bucket(this.axis * this.hashes + j, value, this.bits);
      if (!found.includes(place)) found.push(place);
    }
    return found;
  }
}

/** Most bits in which two rows differ; two rows differ in no more bits than they have together. */
function farthest(words: Uint32Array, width: number, ones: Uint16Array, order: number[]): number {
  let best = 0;
  for (let i = 0; i + 1 < order.length; i++) {
    const a = order[i]!;
    if (ones[a]! + ones[order[i + 1]!]! <= best) break;
    for (let j = i + 1; j < order.length; j++) {
      const b = order[j]!;
      if (ones[a]! + ones[b]! <= best) break;
      let apart = 0;
      for (let w = 0; w < width; w++) apart += popcount(words[a * width + w]! ^ words[b * width + w]!);
      if (apart > best) best = apart;
    }
  }
  return best;
}
