// Makes ../static from src, and writes the checksums of both sides, which a Go test compares: it
// needs no node to find a build that is not of these sources.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";

await build({
  entryPoints: { console: "src/main.tsx" },
  outdir: "../static",
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  charset: "utf8",
  legalComments: "inline",
  logLevel: "warning",
});

const files = ["package.json", "package-lock.json", "tsconfig.json", "build.mjs"]
  .concat(readdirSync("src").map(name => "src/" + name), readdirSync("../static").map(name => "../static/" + name))
  .filter(name => !name.endsWith("SHA256SUMS"))
  .sort();
const sum = name => createHash("sha256").update(readFileSync(name)).digest("hex");
writeFileSync("../static/SHA256SUMS", files.map(name => `${sum(name)}  ${name}\n`).join(""));
