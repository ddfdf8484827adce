/**
 * Builds the page of `turns web`: src/viewer/page/ into dist/viewer/, as five static files. The script and the
 * style sheet are compressed, as browsers take them.
 *
 *   node scripts/viewer.mjs [folder]   a folder in place of dist/viewer
 */
import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { minify } from "terser";

const root = fileURLToPath(new URL("..", import.meta.url));
const source = path.join(root, "src", "viewer", "page");
const target = path.resolve(root, process.argv[2] ?? path.join("dist", "viewer"));

/** Names in dagre that nothing else has, and that no text in it has. Short ones save 3 KB. */
const DAGRES_OWN = new RegExp(
  `^(${[
    "_(isDirected|isMultigraph|isCompound|nodes|in|preds|out|sucs|edgeObjs|edgeLabels|nodeCount|edgeCount|keyIndices)",
    "_(defaultNodeLabelFn|defaultEdgeLabelFn|removeFromParentsChildList)",
    "set(Edge|Node|Nodes|Parent|Graph|Path|DefaultEdgeLabel|DefaultNodeLabel)",
    "(has|remove)(Node|Edge)|predecessors|successors|neighbors|nodeEdges|filterNodes|sources|sinks",
    "edgeLabel|predecessor|filterEdges|lowlink|indegree|distance|priority|dummy|reversed|forwardName|customOrder|labelRank",
    "nodeCount|removeMin|_(dagreClusterSubgraph|parent|children)",
    "border(Top|Bottom)|edgeObj|selfEdges|cutvalue|nesting(Root|Edge)|nodeRankFactor|dummyChains|initCutValues",
  ].join("|")})$`,
);

/** dagre's lists of its parts: `list(parts,{topsort:()=>t,…})`. */
const LIST = /(?<=;)([\w$]+\(([\w$]+),\{)((?:[\w$]+:\(\)=>[\w$]+,?)+)(?=\}\))/g;

/** Without the parts that nobody asks a list for. esbuild leaves out what only they need: 6 KB. */
function withoutUnusedParts(script) {
  const asked = new Set(script.match(/[\w$]+\.[\w$]+/g));
  for (const [, parts, list] of script.matchAll(/\{([^{}]*)\}=([\w$]+)/g))
    for (const part of parts.split(",")) asked.add(`${list}.${part.split(":")[0]}`);
  return script.replaceAll(LIST, (_, start, list, parts) => {
    const kept = parts.split(",").filter((part) => asked.has(`${list}.${part.split(":")[0]}`));
    return start + kept.join(",");
  });
}

rmSync(target, { recursive: true, force: true });
mkdirSync(target, { recursive: true });
const common = {
  outdir: target,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  logLevel: "warning",
  tsconfigRaw: {},
};
await build({
  ...common,
  entryPoints: { page: path.join(source, "main.tsx") },
  // The page loads it when it shows a graph.
  external: ["./layout.js"],
  // Shorter than what "react-jsx" makes, by which TypeScript checks it.
  ...{ jsx: "transform", jsxFactory: "h", jsxFragment: "Fragment", inject: [path.join(source, "jsx.ts")] },
});
await build({
  ...common,
  entryPoints: { layout: path.join(source, "layout.ts") },
  mangleProps: DAGRES_OWN,
  plugins: [
    {
      name: "dagre-without-unused-parts",
      setup: (build) => {
        build.onLoad({ filter: /dagre\.esm\.js$/ }, ({ path: file }) => ({
          contents: withoutUnusedParts(readFileSync(file, "utf8")),
        }));
      },
    },
  ],
});
// What only unused parts of dagre call is left by esbuild.
const CONTAINED = {
  "page.js": "preact (MIT, Jason Miller)",
  "layout.js": "@dagrejs/dagre (MIT, Chris Pettitt)",
};
for (const [name, contained] of Object.entries(CONTAINED)) {
  const script = path.join(target, name);
  const { code = "" } = await minify(readFileSync(script, "utf8"), {
    module: true,
    ecma: 2020,
    compress: { passes: 3, pure_getters: true, unsafe_arrows: true },
    format: { preamble: `/*! Contains ${contained} */` },
  });
  writeFileSync(script, code);
}
await build({
  entryPoints: [path.join(source, "page.css")],
  outdir: target,
  minify: true,
  target: "chrome123",
  logLevel: "warning",
});
for (const name of ["index.html", "icon.svg"]) copyFileSync(path.join(source, name), path.join(target, name));
const css = path.join(target, "page.css");
// esbuild leaves the values of variables as they are.
writeFileSync(css, readFileSync(css, "utf8").replaceAll(/(?<=--[[\w$]-]+:) | (?=#[\w$]+\))/g, ""));
for (const name of [...Object.keys(CONTAINED), "page.css"]) {
  const file = path.join(target, name);
  writeFileSync(`${file}.gz`, gzipSync(readFileSync(file), { level: 9, memLevel: 9 }));
  rmSync(file);
}
