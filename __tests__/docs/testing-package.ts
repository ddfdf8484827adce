import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { tempFile } from "../support/temp";

const ROOT = join(__dirname, "..", "..");

/** The package's ES modules, built without types into an empty folder, and beside them graph modules that import it by its name. */
export interface BuiltPackage {
  child: string;
  /** Compiles a file of this folder. @returns its path */
  graphModule(source: string): string;
  /** Writes a module as it is. @returns its path */
  written(name: string, text: string): string;
}

export function builtPackage(): BuiltPackage {
  const folder = dirname(tempFile());
  tsup(["--format", "esm", "--no-dts", "--out-dir", join(folder, "dist")]);
  cpSync(join(ROOT, "package.json"), join(folder, "package.json"));
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"), "dir");
  const graphs = join(folder, "graphs");
  mkdirSync(graphs);
  return {
    child: join(folder, "dist", "testing-child.js"),
    graphModule: (source) => {
      const external = ["--external", "langgraph-checkpoint-turns"];
      tsup([
        join(__dirname, `${source}.ts`),
        "--no-config",
        "--format",
        "esm",
        "--target",
        "node20",
        ...external,
        "--out-dir",
        graphs,
      ]);
      return join(graphs, `${source}.js`);
    },
    written: (name, text) => {
      writeFileSync(join(graphs, name), text);
      return join(graphs, name);
    },
  };
}

function tsup(options: readonly string[]): void {
  const program = join(ROOT, "node_modules", "tsup", "dist", "cli-default.js");
  const { status, stderr } = spawnSync(process.execPath, [program, "--silent", ...options], { cwd: ROOT });
  if (status !== 0) throw new Error(String(stderr));
}
