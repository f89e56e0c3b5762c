// Builds the page into dist (or the first argument): one script, one style, and the licences of what is in the script.
// Builds the flame graphs of reports, which are those of the page, into the crate of reports (or the second argument).
import { build } from "esbuild";
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

/** Most bytes of the page, compressed. */
const MAX_BYTES = 150_000;

/** Minified code has one line; files end with a line break. */
function trim(folder, files) {
  for (const file of files) {
    const text = readFileSync(join(folder, file), "utf8");
    writeFileSync(join(folder, file), text.trimEnd() + "\n");
  }
}

const out = process.argv[2] ?? "dist";
mkdirSync(out, { recursive: true });
const result = await build({
  entryPoints: { app: "src/app.tsx" },
  outdir: out,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  metafile: true,
  logLevel: "warning",
});
for (const file of ["index.html", "icon.svg"]) {
  copyFileSync(join("src", file), join(out, file));
}
trim(out, ["app.js", "app.css"]);
const reports = process.argv[3] ?? "../../etw_report/dist";
mkdirSync(reports, { recursive: true });
await build({
  entryPoints: { flame: "src/report.ts" },
  outdir: reports,
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  charset: "utf8",
  logLevel: "warning",
});
trim(reports, ["flame.js", "flame.css"]);
const packages = new Set();
for (const input of Object.keys(result.metafile.inputs)) {
  const found = /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(input);
  if (found) packages.add(found[1]);
}
let licenses = "The page of etw view contains these libraries.\n";
for (const name of [...packages].sort()) {
  const folder = join("node_modules", name);
  const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = readdirSync(folder).find((file) => /^licen[cs]e/i.test(file));
  const text = file ? readFileSync(join(folder, file), "utf8").trim() : `Licence: ${license}`;
  licenses += `\n${"=".repeat(80)}\n${name} ${version} (${license})\n${"=".repeat(80)}\n\n${text}\n`;
}
writeFileSync(join(out, "licenses.txt"), licenses);
const bytes = ["index.html", "app.js", "app.css"].map((file) => gzipSync(readFileSync(join(out, file)), { level: 9 }).length);
const sum = bytes.reduce((a, b) => a + b);
console.log(`${out}: ${sum} bytes compressed`);
if (sum > MAX_BYTES) throw new Error(`the page has ${sum} bytes compressed, more than ${MAX_BYTES}`);
