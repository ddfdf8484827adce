// Bundles a program for Node with one of the bundlers: bundle.mjs <bundler> <esm|cjs> <program> <bundle>. The last line is an array of what
// the bundler told that has to do with this package; what it tells of LangChain's own files is not ours to mend.
import { mkdirSync } from "node:fs";
import { basename, dirname } from "node:path";
import commonjs from "@rollup/plugin-commonjs";
import json from "@rollup/plugin-json";
import nodeResolve from "@rollup/plugin-node-resolve";
import * as esbuild from "esbuild";
import { rollup } from "rollup";
import webpack from "webpack";

const [bundler, format, program, bundle] = process.argv.slice(2);
const OTHERS = /node_modules[\\/](@langchain|zod|uuid|langsmith|markdown-it|@cfworker|js-tiktoken|p-queue|p-retry)[\\/]/;

const bundlers = {
  async esbuild() {
    const { warnings } = await esbuild.build({
      entryPoints: [program],
      outfile: bundle,
      bundle: true,
      platform: "node",
      format,
      external: ["better-sqlite3"],
      logLevel: "silent",
    });
    return warnings.map(({ text, location }) => ({ text, file: location?.file ?? "" }));
  },

  async rollup() {
    const warnings = [];
    const built = await rollup({
      input: program,
      plugins: [nodeResolve({ preferBuiltins: true, exportConditions: ["node"] }), commonjs(), json()],
      onwarn: ({ message, id, ids, loc }) => warnings.push({ text: message, file: id ?? ids?.join(" ") ?? loc?.file ?? "" }),
    });
    await built.write({ file: bundle, format, inlineDynamicImports: true });
    await built.close();
    return warnings;
  },

  async webpack() {
    const isModule = format === "esm";
    const stats = await new Promise((resolve, reject) => {
      const options = {
        mode: "production",
        target: "node20",
        context: dirname(program),
        entry: program,
        optimization: { minimize: false },
        // LangSmith looks for functions of node:zlib that Node 20 doesn't have; an ES module must not import them by name.
        externals: isModule ? { "node:zlib": "node-commonjs node:zlib" } : {},
        experiments: { outputModule: isModule },
        output: {
          path: dirname(bundle),
          filename: basename(bundle),
          library: { type: isModule ? "module" : "commonjs2" },
          ...(isModule ? { module: true, chunkFormat: "module" } : {}),
        },
      };
      webpack(options, (error, done) => (error ? reject(error) : resolve(done)));
    });
    const { errors, warnings } = stats.toJson({ all: false, errors: true, warnings: true });
    return [...errors, ...warnings].map(({ message, moduleIdentifier }) => ({ text: message, file: moduleIdentifier ?? "" }));
  },
};

mkdirSync(dirname(bundle), { recursive: true });
const told = await bundlers[bundler]();
console.log(JSON.stringify(told.filter(({ file }) => !OTHERS.test(file)).map(({ text, file }) => `${text} (${file})`)));
