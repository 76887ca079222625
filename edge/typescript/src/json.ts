/**
 * A JSON reader for documents that nobody vouches for.
 *
 * It differs from JSON.parse: it bounds nesting and size while it reads, refuses repeated fields and
 * lone surrogates, keeps integers exact, and notices whether the document is in its canonical form.
 */

import { PlanError } from "./errors.js";

/** Integers that a JavaScript number holds exactly are numbers, larger ones bigint. */
export type Json = null | boolean | string | number | bigint | Fraction | Json[] | JsonObject;
export type JsonObject = Map<string, Json>;

/** A number that is not spelled as an integer. */
export class Fraction {
  constructor(readonly spelled: string) {}
}

/** Most commas, colons and opening brackets: the time of reading grows with them. */
export const MAX_TOKENS = 1 << 20;
/** Most lists and objects. */
export const MAX_CONTAINERS = 400_000;
/** Most levels of nested lists and objects. */
export const MAX_DEPTH = 32;

const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y;
const PLAIN = /[^"\\\u0000-\u001f]*/y;
const SPACE = /[ \t\n\r]*/y;
const ESCAPES = new Map(Object.entries({ '"': '"', "\\": "\\", "/": "/", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" }));
const LONE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;
const MAX_WORD = 1n << 64n;

/** A document with what its spelling showed. */
export interface Parsed {
  value: Json;
  /** Fields sorted by their UTF-8 bytes, no spaces, escapes and integers in one spelling. */
  canonical: boolean;
  /** Some number is spelled as a fraction. */
  fractions: boolean;
}

/** Read a JSON document; throws a PlanError with one line for anything else. */
export function parse(source: string): Parsed {
  const reader = new Reader(source);
  const value = reader.document();
  return { value, canonical: reader.canonical, fractions: reader.fractions };
}

/** Whether one text comes before another by their UTF-8 bytes: by code points. */
export function before(a: string, b: string): boolean {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    if (a[i] === b[i]) continue;
    // The first difference may lie in the middle of a pair; code units order pairs correctly then.
    const x = a.charCodeAt(i);
    const y = b.charCodeAt(i);
    const high = (unit: number) => unit >= 0xd800 && unit <= 0xdfff;
    return high(x) === high(y) ? x < y : high(y);
  }
  return a.length < b.length;
}

class Reader {
  canonical = true;
  fractions = false;
  private at = 0;
  private tokens = 0;
  private containers = 0;

  constructor(private readonly source: string) {}

  document(): Json {
    this.space();
    const value = this.value(0);
    this.space();
    if (this.at < this.source.length) throw this.broken("expected the end");
    return value;
  }

  private value(depth: number): Json {
    switch (this.source[this.at]) {
      case "{":
        return this.object(depth + 1);
      case "[":
        return this.list(depth + 1);
      case '"':
        return this.string();
      case "t":
        return this.word("true", true);
      case "f":
        return this.word("false", false);
      case "n":
        return this.word("null", null);
      default:
        return this.number();
    }
  }

  private object(depth: number): JsonObject {
    const found: JsonObject = new Map();
    let last: string | undefined;
    this.open(depth);
    while (!this.closed("}", found.size)) {
      if (this.source[this.at] !== '"') throw this.broken("expected a field");
      const name = this.string();
      if (found.has(name)) throw new PlanError(`plan: field ${quoted(name)} stands twice in one object`);
      if (last !== undefined && !before(last, name)) this.canonical = false;
      last = name;
      this.space();
      this.expect(":");
      this.space();
      found.set(name, this.value(depth));
      this.space();
    }
    return found;
  }

  private list(depth: number): Json[] {
    const found: Json[] = [];
    this.open(depth);
    while (!this.closed("]", found.length)) {
      found.push(this.value(depth));
      this.space();
    }
    return found;
  }

  private open(depth: number): void {
    this.at++;
    this.count();
    if (++this.containers > MAX_CONTAINERS) {
      throw new PlanError(`plan: more than ${MAX_CONTAINERS} lists and objects`);
    }
    if (depth > MAX_DEPTH) throw new PlanError(`plan: nested more than ${MAX_DEPTH} levels deep`);
    this.space();
  }

  /** Whether the container ends here; otherwise goes to the next entry. */
  private closed(bracket: string, entries: number): boolean {
    if (this.source[this.at] === bracket) {
      this.at++;
      return true;
    }
    if (entries > 0) {
      this.expect(",");
      this.space();
    }
    return false;
  }

  private expect(character: string): void {
    if (this.source[this.at] !== character) throw this.broken(`expected ${character}`);
    this.at++;
    this.count();
  }

  private count(): void {
    if (++this.tokens > MAX_TOKENS) throw new PlanError(`plan: more than ${MAX_TOKENS} values`);
  }

  private space(): void {
    const code = this.source.charCodeAt(this.at);
    if (code !== 32 && !(code >= 9 && code <= 13)) return;
    SPACE.lastIndex = this.at;
    SPACE.test(this.source);
    this.at = SPACE.lastIndex;
    this.canonical = false;
  }

  private word<T>(spelled: string, value: T): T {
    if (!this.source.startsWith(spelled, this.at)) throw this.broken("expected a value");
    this.at += spelled.length;
    return value;
  }

  private number(): number | bigint | Fraction {
    NUMBER.lastIndex = this.at;
    const match = NUMBER.exec(this.source);
    if (!match) throw this.broken("expected a value");
    this.at = NUMBER.lastIndex;
    const spelled = match[0];
    // Integers beyond 64 bits are no integers to any reader of a plan.
    if (match[1] !== undefined || match[2] !== undefined || spelled.length > 20) return this.fraction(spelled);
    if (spelled === "-0") this.canonical = false;
    const value = Number(spelled);
    if (Number.isSafeInteger(value)) return value + 0;
    const exact = BigInt(spelled);
    return exact < MAX_WORD && exact >= -MAX_WORD / 2n ? exact : this.fraction(spelled);
  }

  private fraction(spelled: string): Fraction {
    if (!Number.isFinite(Number(spelled))) throw this.broken("a number is too large");
    this.fractions = true;
    return new Fraction(spelled);
  }

  private string(): string {
    this.at++;
    let found = "";
    let escaped = false;
    for (;;) {
      PLAIN.lastIndex = this.at;
      PLAIN.test(this.source);
      found += this.source.slice(this.at, PLAIN.lastIndex);
      this.at = PLAIN.lastIndex;
      const next = this.source[this.at++];
      if (next === '"') break;
      if (next !== "\\") throw this.broken("a text does not end");
      found += this.escape();
      escaped = true;
    }
    if (escaped && LONE.test(found)) throw this.broken("a lone surrogate");
    return found;
  }

  private escape(): string {
    const kind = this.source[this.at++] ?? "";
    let found = ESCAPES.get(kind);
    if (kind === "u") {
      const digits = this.source.slice(this.at, this.at + 4);
      if (!/^[0-9a-fA-F]{4}$/.test(digits)) throw this.broken("an unknown escape");
      this.at += 4;
      found = String.fromCharCode(parseInt(digits, 16));
    }
    if (found === undefined) throw this.broken("an unknown escape");
    if (kind === "/" || (kind === "u" && !mustEscape(found, this.source.slice(this.at - 4, this.at)))) this.canonical = false;
    return found;
  }

  private broken(what: string): PlanError {
    return new PlanError(`plan: not JSON: ${what} at character ${this.at}`);
  }
}

/** Whether a character has no shorter spelling than these digits, in lower case, after a `\\u`. */
function mustEscape(character: string, digits: string): boolean {
  return character < " " && !"\b\t\n\f\r".includes(character) && digits === digits.toLowerCase();
}

/** Return a text of a plan in quotes, shortened. */
export function quoted(value: string): string {
  return JSON.stringify(value.length > 40 ? `${value.slice(0, 40)}…` : value);
}
