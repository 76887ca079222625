/** What needs no browser: numbers and times, lists of names, snippets, the tree. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { promisify } from "node:util";
import { address, path, questionWords } from "../src/api/client";
import { heights, scaleOf } from "../src/charts/bins";
import { extent, noise, numberLast, ordered, panels, weak } from "../src/charts/model";
import { statisticsOf } from "../src/parts/statistics";
import { forest } from "../src/charts/tree";
import { link, readRoute } from "../src/state/route";
import { chance, count, decimals, duration, half, number, percent, points, short, span } from "../src/text/format";
import { joined, separated, visible } from "../src/text/names";
import { curl, python } from "../src/text/snippets";
import { ended } from "../src/text/windows";
import type { Plan } from "../src/api/types";
import { PageServer } from "./server";

const SPACE = "\u00a0";
const plain = (text: string) => text.replaceAll(SPACE, " ");

test("numbers", () => {
  assert.equal(count(1234567), "1,234,567");
  assert.equal(plain(percent(0.41267, 1)), "41.3 %");
  assert.equal(plain(percent(-0.0001, 1)), "0.0 %");
  assert.equal(plain(percent(-0.02, 1)), "−2.0 %");
  assert.equal(points(0.0123, 1), "+1.2");
  assert.equal(points(0.0001, 1), "0.0");
  assert.equal(plain(half(0.01, 2)), "± 1.96");
  assert.deepEqual([decimals([0.01]), decimals([0.001]), decimals([0.0001]), decimals([])], [1, 2, 3, 1]);
  assert.deepEqual([short(950), short(31_250), short(2_000_000)].map(plain), ["950", "31.3 k", "2 M"]);
  assert.deepEqual([chance(1e-9), chance(0.043), chance(0.5)], ["p < 0.001", "p = 0.043", "p = 0.50"]);
});

test("times", () => {
  const day = Date.UTC(2026, 10, 22) / 1000;
  assert.equal(span(day + 36_000, day + 39_600), "22 Nov 2026, 10:00–11:00 UTC");
  assert.equal(span(day + 82_800, day + 86_400), "22 Nov 2026, 23:00–24:00 UTC");
  assert.equal(span(day, day + 86_400), "22 Nov 2026");
  assert.equal(plain(span(day, day + 2 * 86_400)), "22 Nov 2026 – 23 Nov 2026");
  assert.equal(span(day + 8, day + 16), "22 Nov 2026, 00:00:08–00:00:16 UTC");
  assert.deepEqual([duration(8), duration(3600), duration(5400), duration(86_400)].map(plain), [
    "8 seconds",
    "1 hour",
    "90 minutes",
    "1 day",
  ]);
});

test("lists of names survive commas, backslashes and repetition", () => {
  for (const names of [["a"], ["a,b", "c"], ["a\\", "b\\,c"], ["\\", ","], ["العربية", "<b>"]])
    assert.deepEqual(separated(joined(names)), names);
  assert.deepEqual(separated("a,b,a,,"), ["a", "b"]);
  assert.deepEqual([visible(""), visible("  "), visible("\u202eevil")], ["(empty)", "(blank)", "\ufffdevil"]);
});

test("addresses within the page lead back to themselves", () => {
  const words = { attributes: "a b,c&d=#?", windows: "3..9" };
  const route = readRoute(link("plan/ä%", "tables", words));
  assert.deepEqual(route, { plan: "plan/ä%", view: "tables", words });
  assert.deepEqual(readRoute(""), { plan: "", view: "overview", words: {} });
  assert.equal(readRoute("#/%E0%A4%A/nothing").view, "overview");
});

test("names with commas are parameters of their own", () => {
  const question = { attributes: ["a,b", "c"], windows: "total", minus: "", group: "", given: ["c"] };
  const found = new URL(address(path("p/1", "tables"), questionWords(question)), "http://server/");
  assert.equal(found.pathname, "/v1/plans/p%2F1/tables");
  assert.deepEqual(found.searchParams.getAll("attributes"), ["a,b", "c"]);
  assert.deepEqual([...found.searchParams.keys()], ["attributes", "attributes", "windows", "given"]);
});

test("snippets ask this server, and quote what they hold", async () => {
  const server = await PageServer.start();
  server.token = "secret";
  const names = ["theme", "age"];
  const question = { attributes: names, windows: "0..6", minus: "", group: "", given: ["age"] };
  const run = async (program: string, text: string) => {
    const { stdout } = await promisify(execFile)(program, ["-c", text], { env: { ...process.env, TOKEN: "secret" } });
    return stdout;
  };
  try {
    const base = `${server.address}/`;
    const shown = await run("python3", python(base, "settings", question, true));
    assert.deepEqual(shown.split("\n").map((line) => line.split(" ")[0]), ["attributes", "labels", "table", "stderr", ""]);
    assert.match(shown, /^attributes \['theme', 'age'\]/);
    const found = JSON.parse(await run("sh", curl(base, "settings", question, true))) as { attributes: string[] };
    assert.deepEqual(found.attributes, names);
    const odd = { ...question, attributes: ["it's", 'say "x"'] };
    assert.doesNotMatch(python(base, "p", odd, false), /Authorization|it's/);
    assert.match(curl(base, "p", odd, false), /^curl 'http:.*attributes=it%27s%2Csay\+%22x%22/);
  } finally {
    await server.close();
  }
});

test("a plan has ended with its last window, or some time after its end", () => {
  const hours = { seconds: 3600, grace: 60, first_start: 0, last_end: 3 * 3600 };
  const plan = (windows: Plan["windows"]) => ({ windows }) as Plan;
  assert.equal(ended(plan(hours), 1, 0), false);
  assert.equal(ended(plan(hours), 2, 0), true);
  assert.equal(ended(plan(hours), null, 3.5 * 3600), false);
  assert.equal(ended(plan(hours), null, 5 * 3600), true);
  assert.equal(ended(plan({ ...hours, last_end: null }), 9, 1e9), false);
});

test("cells become panels in row-major order", () => {
  const found = panels({
    labels: [
      ["x", "y"],
      ["1", "2", "3"],
    ],
    table: [0.1, 0.2, 0.3, 0.05, 0.15, 0.2],
    stderr: [0.06, 0.01, 0.01, 0.01, 0.01, 0.01],
  });
  assert.deepEqual(
    found.map((p) => [p.title, p.rows.map((r) => r.value)]),
    [
      [["x"], [0.1, 0.2, 0.3]],
      [["y"], [0.05, 0.15, 0.2]],
    ],
  );
  assert.deepEqual(
    ordered(found[0]!.rows, "size").map((r) => r.label),
    ["3", "2", "1"],
  );
  assert.deepEqual(found[0]!.rows.map(weak), [true, false, false]);
  assert.ok(Math.abs(noise([0.03, 0.04]) - Math.sqrt(0.00125)) < 1e-15);
  assert.deepEqual(extent([{ label: "", place: 0, value: 0.9, stderr: 0.2 }], false), [0, 1]);
  assert.deepEqual(extent([{ label: "", place: 0, value: -0.5, stderr: 0 }], true), [-0.5, 0]);
});

test("a forest has every attribute once, and a root with most neighbours", () => {
  const found = forest([
    ["a", "b", 0.1],
    ["a", "c", 0.5],
    ["d", "e", 0.2],
    ["c", "f", 0.3],
  ]);
  const names = (node: { name: string; children: readonly unknown[] }): string[] => [
    node.name,
    ...(node.children as (typeof node)[]).flatMap(names),
  ];
  assert.deepEqual(
    found.map((root) => root.name),
    ["a", "d"],
  );
  assert.deepEqual(found.flatMap(names), ["a", "c", "f", "b", "d", "e"]);
});

const NUMBER = { name: "ms", kind: "number", unit: "ms", rounding: "bin", below: false, above: false } as const;
const near = (found: readonly number[], expected: readonly number[]) =>
  found.forEach((value, i) => assert.ok(Math.abs(value - expected[i]!) < 1e-9, `${found} is not ${expected}`));

test("bins stand on the scale of their edges, other labels beside it", () => {
  const even = scaleOf({ ...NUMBER, labels: ["0..1", "1..2"], edges: [0, 1, 2] })!;
  assert.deepEqual([even.log, even.even, even.ticks.length], [false, true, 3]);
  near(even.bins.map((bin) => bin.to), [0.5, 1]);
  const log = scaleOf({ ...NUMBER, labels: ["1..10", "10..100", "100..1000"], edges: [1, 10, 100, 1000] })!;
  assert.deepEqual([log.log, log.even], [true, true]);
  const beside = scaleOf({ ...NUMBER, labels: ["<0", "0..1", "1..4", "4+", "?"], edges: [0, 1, 4], below: true, above: true })!;
  assert.deepEqual([beside.log, beside.even], [false, false]);
  assert.deepEqual(beside.bins.map((bin) => bin.inside), [false, true, true, false, false]);
  assert.ok(beside.bins.every((bin, i) => bin.from >= 0 && bin.to <= 1 + 1e-9 && bin.from >= (beside.bins[i - 1]?.to ?? 0) - 1e-9));
  const grid = scaleOf({ ...NUMBER, labels: ["0", "1", "2"], edges: [0, 1, 2], rounding: "grid" })!;
  near(grid.bins.map((bin) => (bin.from + bin.to) / 2), grid.ticks.map((tick) => tick.at));
  assert.equal(scaleOf({ name: "a", labels: ["x", "y"] }), null);
  assert.equal(scaleOf({ ...NUMBER, labels: ["0..1"], edges: [0, 1, 2] }), null);
});

test("ticks have room and hold both ends", () => {
  const edges = Array.from({ length: 65 }, (_, i) => i);
  const { ticks } = scaleOf({ ...NUMBER, labels: edges.slice(1).map(String), edges })!;
  assert.deepEqual([ticks[0]!.value, ticks.at(-1)!.value], [0, 64]);
  assert.ok(ticks.length >= 5 && ticks.length <= 8);
});

test("the area of a bar is its proportion", () => {
  const scale = scaleOf({ ...NUMBER, labels: ["0..1", "1..4", "?"], edges: [0, 1, 4] })!;
  const rows = [0.4, 0.5, 0.1].map((value) => ({ value, stderr: 0.01 }));
  const found = heights(scale, rows, 1.96);
  const areas = found.map((bar, i) => bar.value * (scale.bins[i]!.to - scale.bins[i]!.from));
  near([areas[1]! / areas[0]!], [0.5 / 0.4]);
  near([found[2]!.value, heights(scale, [{ value: -0.1, stderr: NaN }], 1.96)[0]!.value], [0.1, 0]);
});

test("a number becomes the last attribute", () => {
  const attributes = [{ ...NUMBER, labels: ["a", "b"] }, { name: "region", labels: ["x", "y", "z"] }];
  const answer = { attributes: ["ms", "region"], labels: [["a", "b"], ["x", "y", "z"]], table: [1, 2, 3, 4, 5, 6], stderr: [1, 2, 3, 4, 5, 6], flags: [] as string[] };
  const whole = { ...answer, plan: "", windows: [], reports: 1, revision: [] };
  const turned = numberLast(whole, attributes);
  assert.deepEqual([turned.attributes, turned.labels[1], turned.table], [["region", "ms"], ["a", "b"], [1, 4, 2, 5, 3, 6]]);
  assert.equal(numberLast({ ...whole, flags: ["conditional"] }, attributes).attributes[0], "ms");
  assert.equal(numberLast(turned, attributes), turned);
});

test("statistics fit the attributes", () => {
  const attributes = [
    { ...NUMBER, labels: ["a", "b"] },
    { name: "region", labels: ["x", "y"] },
    { name: "size", labels: ["s", "l"], kind: "ordered" as const },
    { name: "apps=mail", labels: ["no", "yes"], kind: "option" as const },
  ];
  const asked = (names: string[], more = {}, published: string[] = []) =>
    statisticsOf({ attributes: names, windows: "total", minus: "", group: "", given: [], ...more }, attributes, published);
  assert.deepEqual(asked(["ms"]), { attributes: ["ms"], given: [], statistics: ["mean", "median"] });
  assert.deepEqual(asked(["ms"], {}, ["rank", "q0.9"])?.statistics, ["q0.9"]);
  assert.deepEqual(asked(["ms", "region"])?.given, ["region"]);
  assert.deepEqual(asked(["region", "ms"])?.given, ["region"]);
  assert.deepEqual(asked(["ms", "size"])?.statistics, ["rank"]);
  assert.deepEqual(asked(["apps=mail", "region"]), { attributes: ["apps=mail", "region"], given: ["region"], statistics: ["share:yes"] });
  assert.deepEqual(asked(["ms", "apps=mail"])?.given, ["apps=mail"]);
  for (const names of [["region"], ["apps=mail"], ["ms", "region", "size"]]) assert.equal(asked(names), null);
  for (const more of [{ minus: "1" }, { group: "ms=a" }]) assert.equal(asked(["ms"], more), null);
  assert.deepEqual([number(12345.6), number(-0.012345)], ["12,350", "−0.01235"]);
});
