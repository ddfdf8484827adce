import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { OURS } from "../drive/contenders";
import { linesOf } from "../measure/source-files";
import { Samples } from "../measure/samples";
import type { Result, Scenario } from "./scenario";

const CHILD = fileURLToPath(new URL("./weight-child.ts", import.meta.url));
const TSCONFIG = fileURLToPath(new URL("../../tsconfig.json", import.meta.url));
const SOURCES = fileURLToPath(new URL("../../src/", import.meta.url));
export const FILES_OF_PUT = "source files that a put runs through";
export const LINES = "lines in src";

/** What the weight child counts: source files of this package. */
export interface FilesRun {
  put: number;
  step: number;
}

/** How much code there is, and how much of it a save runs through. */
export const weight: Scenario = {
  name: "weight",
  run: async ({ contenders: all }): Promise<Result> => {
    const contenders = all.filter(({ id }) => id === OURS);
    const samples = new Samples();
    const { put, step } = await filesRun();
    samples.add(FILES_OF_PUT, OURS, put, "count");
    samples.add("source files that a whole step runs through", OURS, step, "count");
    samples.add(LINES, OURS, linesOf(SOURCES), "count");
    return {
      name: "weight",
      title: "Weight",
      contenders,
      samples,
      facts: {},
      notes: [
        "Files of `src/` with a function that V8 saw called, on the eleventh checkpoint of a thread that records turns. A whole step is `put`, Thought, Action and `putWrites`.",
        "Lines count all TypeScript files in `src/`, with comments and empty lines.",
      ],
    };
  },
};

/** In a process of its own: precise coverage keeps V8 from optimising. */
function filesRun(): Promise<FilesRun> {
  return new Promise((resolve, reject) => {
    // The bench measures the package as it is built; files are counted in its sources.
    const child = fork(CHILD, [], { env: { ...process.env, TSX_TSCONFIG_PATH: TSCONFIG } });
    let found: FilesRun | undefined;
    child.on("message", (message) => (found = message as FilesRun));
    child.on("error", reject);
    child.on("exit", (code) => {
      if (code === 0 && found !== undefined) resolve(found);
      else reject(new Error(`the process that weighs exited with ${code}`));
    });
  });
}
