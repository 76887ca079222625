/** Made-up plans and answers, in the form of the server. Everything follows from names and numbers. */

import { combinations } from "../src/charts/model";
import type {
  Answer,
  Associations,
  Attribute,
  ChangeTests,
  Final,
  Plan,
  Series,
  SeriesWindow,
  Summary,
  TableChange,
  WindowList,
} from "../src/api/types";

const HOUR = 3600;
const START = Date.UTC(2026, 10, 1) / 1000;
export const HOSTILE = '<img src=x onerror="globalThis.attacked=1"><script>globalThis.attacked=1</script>';

export interface Made {
  readonly plan: Plan;
  /** Number of windows that are over. */
  windows: number;
  readonly perWindow: number;
  /** Flags of a window's tables. */
  readonly flags: (window: number) => string[];
  readonly reports: (window: number) => number;
}

function labels(count: number, stem = "label"): string[] {
  return Array.from({ length: count }, (_, i) => `${stem} ${i + 1}`);
}

function made(
  name: string,
  attributes: [string, string[]][],
  windows: number,
  more: Partial<Made> & { ends?: number; kinds?: Readonly<Record<string, Partial<Attribute>>> } = {},
): Made {
  const perWindow = more.perWindow ?? 25_000;
  const names = attributes.map(([own]) => own);
  const plan: Plan = {
    name,
    digest: digest(name),
    owner: "Example Ltd",
    purpose: "to know which settings go together",
    method: "noise-aware",
    epsilon: "1",
    words: [
      "Purpose: to know which settings go together.",
      "Example Ltd collects it from 2026-11-01 to 2027-01-30, in windows of 1 hour.",
      "A report speaks about at most 3 of 8 attributes, perturbed on the device: nobody else sees the record.",
      "A device reports once, ever.",
      "One report costs a device a privacy loss of epsilon 1: with any other record, it would be at most 2.7 times as likely.",
      "Over the whole plan a device loses at most epsilon 1.",
      "Further questions about the results cost no privacy.",
    ],
    loss: { report: "1", window: "1", year: "1", plan: "1" },
    guarantee: "once",
    windows: { seconds: HOUR, grace: 300, first_start: START, last_end: START + (more.ends ?? 900_000) * HOUR },
    attributes: attributes.map(([own, all]) => ({ name: own, labels: all, ...more.kinds?.[own] })),
    published: [...names.map((own) => [own]), ...names.flatMap((a, i) => names.slice(i + 1).map((b) => [a, b]))],
  };
  return {
    plan,
    windows,
    perWindow,
    flags: more.flags ?? (() => ["modelled"]),
    reports: more.reports ?? ((w) => Math.round(perWindow * (1 + 0.25 * Math.sin(w / 3.8) + 0.03 * noise(name, w)))),
  };
}

const PHONE: [string, string[]][] = [
  ["region", ["Europe", "North America", "South America", "Asia", "Africa", "Oceania"]],
  ["theme", ["light", "dark", "follows the system"]],
  ["text size", ["small", "normal", "large", "largest"]],
  ["language", ["English", "Español", "Deutsch", "Français", "日本語", "हिन्दी", "العربية", "Português", "other"]],
  ["age", ["17-24", "25-34", "35-44", "45-54", "55-64", "65+"]],
  ["screen reader", ["on", "off"]],
  ["start", ["icon", "notification", "link", "widget"]],
  ["crashed", ["no", "once", "more than once"]],
];

const SCREENS: [string, string[]][] = [
  ["screen orientation", ["upright", "across"]],
  ["marital status", ["married", "never married", "divorced", "widowed"]],
  ["hours of use a week", ["up to 5", "6 to 20", "more"]],
  ["paid subscription", ["yes", "no"]],
];

const EDGES = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000];
const YEARS = Array.from({ length: 25 }, (_, i) => 18 + 3 * i);
const NUMBERS: [string, string[]][] = [
  ["latency", ["<1", ...EDGES.slice(1).map((edge, i) => `${EDGES[i]}..${edge}`), "10000+", "unknown"]],
  ["age", YEARS.map(String)],
  ["satisfaction", ["low", "middle", "high"]],
  ["region", ["Europe", "North America", "South America", "Asia", "Africa", "Oceania"]],
  ["apps=mail", ["no", "yes"]],
  ["price", ["0..1", "1..10", "10..12", "12..40"]],
];
const KINDS: Readonly<Record<string, Partial<Attribute>>> = {
  latency: { kind: "number", unit: "ms", edges: EDGES, rounding: "bin", below: true, above: true },
  age: { kind: "number", unit: "years", edges: YEARS, rounding: "grid", below: false, above: false },
  satisfaction: { kind: "ordered" },
  "apps=mail": { kind: "option" },
  price: { kind: "number", unit: "", edges: [0, 1, 10, 12, 40], rounding: "bin", below: false, above: false },
};

export const plans = (): Made[] => [
  made("settings", PHONE, 48),
  made("numbers", NUMBERS, 24, { kinds: KINDS }),
  made("empty", PHONE, 0),
  made("silent", PHONE, 12, { ends: 12, reports: (w) => (w % 4 === 2 || w === 11 ? 0 : 20_000) }),
  made("noise", PHONE, 24, { perWindow: 60, flags: () => ["modelled", "noise"] }),
  made("forged", PHONE, 24, { flags: (w) => (w % 9 === 5 || w === 23 ? ["modelled", "suspicious"] : ["modelled"]) }),
  made("two", PHONE.slice(0, 2), 24),
  made(
    "fourteen",
    [...PHONE, ...NUMBERS.slice(0, 1), ...NUMBERS.slice(2, 3), ...SCREENS],
    24,
    { kinds: KINDS },
  ),
  made("thousand", PHONE.slice(0, 4), 1000),
  made(
    "wide",
    [
      ["word", labels(4096, "word")],
      ["country", labels(249, "country")],
      ["theme", ["light", "dark"]],
    ],
    6,
  ),
  made(
    "many",
    Array.from({ length: 64 }, (_, i): [string, string[]] => [
      `setting ${String(i + 1).padStart(2, "0")}`,
      ["off", "on"],
    ]),
    12,
  ),
  made(
    "names",
    [
      [
        "a very long name of an attribute that goes on and on, with a comma, until nobody reads it any more",
        ["yes, of course", "no, under no circumstances whatsoever, not even when the moon is full and the tide is out"],
      ],
      [HOSTILE, [HOSTILE, "=1+1", "'; DROP TABLE records; --", "${7*7}{{7*7}}"]],
      ["اللغة", ["العربية", "עברית", "\u202eevil\u202c", "fine"]],
      ["emoji 🏳️‍🌈", ["👩‍👩‍👧‍👦", "Zürich", "e\u0301", "", " "]],
    ],
    6,
  ),
];

/** Statistics, as far as their form goes. */
export function summary(
  one: Made,
  names: readonly string[],
  given: readonly string[],
  statistics: readonly string[],
  last: number,
): Summary {
  const about = names.filter((name) => !given.includes(name));
  const kind = one.plan.attributes.find((a) => a.name === about[0])!;
  const numbered = kind.kind === "number" && about.length === 1;
  const rows = combinations(given.map((name) => one.plan.attributes.find((a) => a.name === name)!.labels));
  const numbers = statistics.map((statistic, i) => ({
    statistic,
    value: statistic === "rank" || statistic.startsWith("share:") ? 0.25 : 23.456 + 11 * i,
    stderr: 0.01,
    low: statistic === "rank" || statistic.startsWith("share:") ? 0.23 : 21.2 + 11 * i,
    high: statistic === "rank" || statistic.startsWith("share:") ? 0.27 : 26.1 + 11 * i,
  }));
  const unknown = statistics.map((statistic) => ({ statistic, value: null, stderr: null, low: null, high: null }));
  return {
    plan: one.plan.digest,
    attributes: about,
    unit: numbered ? kind.unit! : "",
    given,
    rows: rows.map((labels, i) => ({ labels, statistics: i === 3 ? unknown : numbers })),
    flags: ["modelled", ...(numbered ? [kind.rounding === "grid" ? "blurred" : "binned"] : [])],
    windows: answer(one, [about[0]!], 0, last, true, []).windows,
    reports: one.reports(last),
    revision: [100 * (last + 1)],
  };
}

export function windowList(one: Made, limit: number): WindowList {
  const numbers = Array.from({ length: one.windows }, (_, w) => w);
  return {
    newest: one.windows ? one.windows - 1 : null,
    kept: one.windows ? [[0, one.windows - 1]] : [],
    finals: numbers.slice(-limit).map((w) => final(one, w)),
    early: one.plan.name === "empty" ? null : { window: one.windows, reports: Math.round(one.perWindow / 3) },
  };
}

function final(one: Made, window: number): Final & { revision: number[] } {
  return {
    window,
    start: START + window * HOUR,
    end: START + (window + 1) * HOUR,
    reports: one.reports(window),
    rejected: window % 7 === 3 ? { late: 12, malformed: 1 } : {},
    suspicious: one.flags(window).includes("suspicious"),
    revision: [100 * (window + 1)],
  };
}

export function answer(
  one: Made,
  names: readonly string[],
  first: number,
  last: number,
  total: boolean,
  given: readonly string[],
  minus?: number,
  current = false,
): Answer {
  const axes = names.map((name) => one.plan.attributes.find((a) => a.name === name)!.labels);
  let reports = 0;
  for (let w = first; w <= last; w += 1) reports += one.reports(w);
  let { table, stderr } = cells(names, axes, last, reports);
  const flags = [...(total ? one.flags(0).filter((f) => f !== "suspicious") : one.flags(last))];
  if (given.length) {
    table = conditional(table, axes.at(-1)!.length);
    flags.push("conditional");
  }
  if (minus !== undefined) {
    const before = cells(names, axes, minus, one.reports(minus));
    table = table.map((value, i) => value - before.table[i]!);
    stderr = stderr.map((e, i) => Math.hypot(e, before.stderr[i]!));
    flags.push("difference");
  }
  const spans = [[first, last], ...(minus === undefined ? [] : [[minus, minus]])] as [number, number][];
  return {
    plan: one.plan.digest,
    attributes: names,
    labels: axes,
    table,
    stderr,
    flags,
    reports,
    revision: [100 * (last + 1)],
    windows: spans.map(([a, b]) => ({
      first: a,
      last: b,
      total: total && minus === undefined,
      current,
      start: START + a * HOUR,
      end: START + (b + 1) * HOUR,
    })),
  };
}

function cells(
  names: readonly string[],
  axes: readonly (readonly string[])[],
  window: number,
  reports: number,
): { table: number[]; stderr: number[] } {
  const size = axes.reduce((product, own) => product * own.length, 1);
  const shares = axes.map((own, i) => share(names[i]!, own.length, window));
  const weights = Array.from({ length: size }, (_, cell) => {
    let [rest, weight] = [cell, 1];
    for (let axis = axes.length - 1; axis >= 0; axis -= 1) {
      const code = rest % axes[axis]!.length;
      rest = (rest - code) / axes[axis]!.length;
      weight *= shares[axis]![code]!;
    }
    return axes.length > 1 ? weight * (1 + 0.5 * noise(names.join("+"), cell)) : weight;
  });
  const sum = weights.reduce((a, b) => a + b, 0);
  const spread = 2.2 / Math.sqrt(Math.max(reports, 1));
  const table = weights.map((w, i) =>
    Math.max(0, w / sum + (spread / (1 + size / 8)) * 2 * noise(`${names}${window}`, i)),
  );
  return { table, stderr: table.map((p) => (spread * Math.sqrt(0.15 + Math.min(p, 0.5))) / (1 + size / 60)) };
}

/** Proportions of one attribute, which move slowly; one label changes at once in the last windows. */
function share(name: string, count: number, window: number): number[] {
  const raw = Array.from({ length: count }, (_, i) => {
    const slow = 1 + 0.18 * Math.sin(window / 9 + 7 * noise(name, i + 100));
    return (
      ((1.3 + noise(name, i)) / (1 + (count > 12 ? i / 4 : 0.6 * i))) *
      slow *
      (name === "crashed" && i === 1 && window === 47 ? 1.5 : 1)
    );
  });
  const sum = raw.reduce((a, b) => a + b, 0);
  return raw.map((r) => r / sum);
}

function conditional(table: readonly number[], inner: number): number[] {
  return table.map((value, i) => {
    const from = i - (i % inner);
    const sum = table.slice(from, from + inner).reduce((a, b) => a + b, 0);
    return value / sum;
  });
}

/** What it is now: here the mean of the last eight windows. */
function tracked(one: Made, names: readonly string[], window: number): SeriesWindow["current"] {
  const all: Answer[] = [];
  for (let w = Math.max(0, window - 7); w <= window; w += 1)
    if (one.reports(w)) all.push(answer(one, names, w, w, false, []));
  if (!all.length) return null;
  const mean = (cells: (a: Answer) => readonly number[], i: number) =>
    all.reduce((sum, a) => sum + cells(a)[i]!, 0) / all.length;
  return {
    reports: all.reduce((sum, a) => sum + a.reports, 0),
    flags: [],
    table: all[0]!.table.map((_, i) => mean((a) => a.table, i)),
    stderr: all[0]!.table.map((_, i) => mean((a) => a.stderr, i) / Math.sqrt(all.length)),
  };
}

export function series(one: Made, names: readonly string[], count: number): Series {
  const found = answer(one, names, 0, 0, false, []);
  const windows = Array.from(
    { length: Math.min(count, one.windows) },
    (_, i) => one.windows - Math.min(count, one.windows) + i,
  ).map((w) => {
    const { start, end, reports } = final(one, w);
    const own = reports ? answer(one, names, w, w, false, []) : null;
    return {
      window: w,
      start,
      end,
      reports,
      flags: own?.flags ?? [],
      table: own?.table ?? null,
      stderr: own?.stderr ?? null,
      current: tracked(one, names, w),
    };
  });
  return { attributes: names, labels: found.labels, windows, truncated: false };
}

export function associations(one: Made): Associations {
  const names = one.plan.attributes.map((a) => a.name);
  const pairs = names.flatMap((a, i) =>
    names.slice(i + 1).map((b) => {
      const raw = Math.abs(noise(a, 5) * noise(b, 9)) ** 1.3;
      const dependent = raw > 0.06;
      return {
        attributes: [a, b] as const,
        strength: Math.min(0.95, raw),
        stderr: null,
        p: dependent ? 1e-9 : 0.1 + raw,
        verdict: dependent ? "dependent" : "undecided",
      };
    }),
  );
  const inTree = new Set([names[0]]);
  const tree: [string, string, number][] = [];
  while (inTree.size < names.length) {
    const best = pairs
      .filter((p) => inTree.has(p.attributes[0]) !== inTree.has(p.attributes[1]))
      .sort((x, y) => y.strength - x.strength)[0]!;
    best.attributes.forEach((name) => inTree.add(name));
    tree.push([...best.attributes, best.strength ** 2 / 2]);
  }
  const causes = [0, 1].map((q) => ({
    share: 0.42 - 0.2 * q,
    stderr: 0.02,
    agreement: 1 - 0.3 * q,
    labels: one.plan.attributes
      .flatMap((a) => a.labels.slice(0, 2).map((label, c) => ({ attribute: a.name, label, c })))
      .map(({ attribute, label, c }, i) => ({
        attribute,
        label,
        without: 0.1 + 0.6 * ((c + q) % 2),
        within: 0.1 + 0.6 * ((c + q + 1) % 2) - 0.02 * Math.min(i, 4),
        stderr: 0.03,
      })),
  }));
  const reports = Array.from({ length: one.windows }, (_, w) => one.reports(w)).reduce((a, b) => a + b, 0);
  return { windows: answer(one, [names[0]!], 0, one.windows - 1, true, []).windows, reports, pairs, causes, tree };
}

/** Tests of all published tables. */
export function changes(one: Made, last: number, earlier: number): ChangeTests & Record<string, unknown> {
  const tables = one.plan.published.map((names): TableChange => {
    const found = answer(one, names, last, last, false, [], earlier);
    const differences = combinations(found.labels).map((labels, i) => ({
      labels,
      value: found.table[i]!,
      stderr: found.stderr[i]!,
    }));
    const p = names.includes("crashed") ? 1e-5 : 0.3 + 0.2 * noise(names.join(), 1);
    const tested = !names.includes("start");
    const shared = {
      attributes: names,
      covered: true,
      statistic: 20,
      df: 5,
      dependence_p: tested && names.length > 1 ? p * 30 : null,
      uncovered: [],
      left_out: [],
    };
    return {
      ...shared,
      p: tested ? p : null,
      p_adjusted: tested ? p : null,
      flags: names.includes("language") ? ["partial"] : [],
      reason: tested ? "" : "too few reports",
      differences: tested ? differences : [],
    };
  });
  const [window, against] = [last, earlier].map((w) => ({
    first: w,
    last: w,
    start: START + w * HOUR,
    end: START + (w + 1) * HOUR,
  })) as [ChangeTests["window"], ChangeTests["against"]];
  const adjusted = tables.flatMap((table) => table.p_adjusted ?? []);
  return {
    plan: one.plan.digest,
    other_plan: null,
    window,
    against,
    reports: [one.reports(last), one.reports(earlier)],
    flags: [],
    tested: adjusted.length,
    changed: adjusted.filter((p) => p <= 0.05).length,
    smallest_p_adjusted: Math.min(...adjusted),
    tables,
  };
}

/** A number from -1 to 1 that follows from a name and a number. */
function noise(name: string, number: number): number {
  let hash = 2166136261 ^ number;
  for (const letter of `${name}/${number}`) hash = Math.imul(hash ^ letter.codePointAt(0)!, 16777619);
  hash ^= hash >>> 15;
  hash = Math.imul(hash, 2246822519);
  hash ^= hash >>> 13;
  return ((hash >>> 0) / 0xffffffff) * 2 - 1;
}

function digest(name: string): string {
  return Array.from({ length: 64 }, (_, i) => "0123456789abcdef"[Math.floor(8 * (1 + noise(name, i))) % 16]).join("");
}
