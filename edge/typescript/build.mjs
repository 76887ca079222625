// Bundles the package into dist/, and with --tests also the tests into build/.
import { execFileSync } from "node:child_process";
import { cp, readFile, readdir, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

process.chdir(dirname(fileURLToPath(import.meta.url)));
const tests = process.argv.includes("--tests");
const common = { bundle: true, format: "esm", target: "es2022", legalComments: "none", logLevel: "warning" };

await rm("dist", { recursive: true, force: true });
await build({ ...common, entryPoints: ["src/index.ts"], outfile: "dist/index.js", minify: true, platform: "browser", sourcemap: true });
await build({ ...common, entryPoints: ["src/node.ts"], outfile: "dist/node.js", platform: "node", sourcemap: true });
await build({ ...common, entryPoints: ["src/words.ts"], outfile: "dist/words.js", minify: true, platform: "browser", sourcemap: true });
await build({ ...common, entryPoints: ["example/page.ts"], outfile: "dist/example/page.js", minify: true, platform: "browser" });
for (const name of ["index.html", "style.css", "config.json"]) await cp(`example/${name}`, `dist/example/${name}`);
execFileSync(process.execPath, ["node_modules/typescript/bin/tsc", "--declaration", "--emitDeclarationOnly",
  "--outDir", "dist/types", "--rootDir", "src", "--noEmit", "false", "-p", "tsconfig.build.json"], { stdio: "inherit" });
const bundle = await readFile("dist/index.js");
console.log(`dist/index.js: ${bundle.length} bytes, ${gzipSync(bundle, { level: 9 }).length} gzipped`);

if (tests) {
  await rm("build", { recursive: true, force: true });
  for (const [from, to] of [["test", "build/test"], ["test/browser", "build/browser"], ["test/tools", "build/tools"]]) {
    const entryPoints = (await readdir(from)).filter((name) => name.endsWith(".ts")).map((name) => join(from, name));
    await build({ ...common, entryPoints, outdir: to, outExtension: { ".js": ".mjs" }, platform: "node",
      sourcemap: "inline", external: ["playwright-core", "/edge.js"] });
  }
}
