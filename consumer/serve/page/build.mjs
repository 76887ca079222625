// Bundles the page into ../assets, and with --tests also the tests into build/test.
import { createHash } from "node:crypto";
import { mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

process.chdir(dirname(fileURLToPath(import.meta.url)));
const option = (name) => process.argv.find((word) => word.startsWith(`--${name}=`))?.split("=")[1];
const assets = option("out") ?? "../assets";
const common = { bundle: true, format: "esm", target: "es2022", logLevel: "warning" };
const fonts = "node_modules/@fontsource-variable/inter";

/** Names of built files by what they hold: a hash of the content, so that they can be cached for ever. */
const named = (stem, ending, content) =>
  `${stem}-${createHash("sha256").update(content).digest("hex").slice(0, 10)}.${ending}`;

if (process.argv.includes("--tests")) await rm("build", { recursive: true, force: true });
await rm(assets, { recursive: true, force: true });
await mkdir(assets, { recursive: true });
const result = await build({
  ...common,
  entryPoints: ["src/main.tsx"],
  outdir: assets,
  write: false,
  minify: true,
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  charset: "utf8",
  loader: { ".woff2": "file" },
  assetNames: "[name]-[hash]",
  platform: "browser",
});
let html = await readFile("src/index.html", "utf8");
for (const file of result.outputFiles) {
  const ending = file.path.split(".").at(-1);
  if (ending === "woff2") {
    await writeFile(file.path, file.contents);
    continue;
  }
  const name = named("page", ending, file.contents);
  await writeFile(join(assets, name), file.contents);
  html = html.replace(`{{${ending}}}`, `assets/${name}`);
  console.log(`${name}: ${file.contents.length} bytes, ${gzipSync(file.contents, { level: 9 }).length} gzipped`);
}
const latin = (await readdir(assets)).find((name) => name.startsWith("inter-latin"));
await writeFile(join(assets, "index.html"), html.replace("{{font}}", `assets/${latin}`));
await writeFile(join(assets, "licenses.txt"), await licences());

/** The licences of everything that the files hold. */
async function licences() {
  const used = [
    "preact",
    "d3-array",
    "d3-color",
    "d3-format",
    "d3-hierarchy",
    "d3-interpolate",
    "d3-path",
    "d3-scale",
    "d3-shape",
    "d3-time",
    "d3-time-format",
    "internmap",
  ];
  const texts = [["Inter (font)", await readFile(join(fonts, "LICENSE"), "utf8")]];
  for (const name of used) texts.push([name, await readFile(join("node_modules", name, "LICENSE"), "utf8")]);
  return texts.map(([name, text]) => `${name}\n\n${text.trim()}\n`).join(`\n${"-".repeat(72)}\n\n`);
}

if (process.argv.includes("--tests")) {
  const entryPoints = (await readdir("test"))
    .filter((name) => /\.(test|tool)\.ts$/.test(name))
    .map((name) => join("test", name));
  await build({
    ...common,
    entryPoints,
    outdir: "build/test",
    outExtension: { ".js": ".mjs" },
    platform: "node",
    jsx: "automatic",
    jsxImportSource: "preact",
    sourcemap: "inline",
    external: ["playwright-core", "axe-core"],
  });
}
