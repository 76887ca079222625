import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";

const SRC = new URL("../../src/", import.meta.url).pathname;

test("no module imports itself in a circle, not even its types", () => {
  const files = readdirSync(SRC, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".ts"));
  const imports = new Map(
    files.map((name) => {
      const found = readFileSync(join(SRC, name), "utf8").matchAll(/from "(\.[^"]+)\.js"/g);
      return [name, [...found].map(([, path]) => `${join(dirname(name), path!)}.ts`)];
    }),
  );
  assert.ok(files.length > 30);
  const done = new Set<string>();
  const visit = (name: string, above: readonly string[]): void => {
    assert.ok(!above.includes(name), [...above, name].join(" > "));
    if (done.has(name)) return;
    done.add(name);
    for (const next of imports.get(name)!) visit(next, [...above, name]);
  };
  for (const name of files) visit(name, []);
});
