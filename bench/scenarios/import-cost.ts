import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { OFFICIAL, OURS } from "../drive/contenders";
import { Samples } from "../measure/samples";
import type { Result, Scenario } from "./scenario";

/** In its `node_modules`, and by its own name, are the packages that are imported. */
const PROJECT = fileURLToPath(new URL("../../", import.meta.url));
export const LANGGRAPH = "langgraph";
export const IMPORT = "import, processor time";

const packages: Record<string, string> = {
  [OURS]: "langgraph-checkpoint-turns",
  [OFFICIAL]: "@langchain/langgraph-checkpoint-sqlite",
};

/** What importing a saver adds to importing LangGraph, each time in a fresh process. */
export const importCost: Scenario = {
  name: "import-cost",
  run: async ({ contenders: all, quick }): Promise<Result> => {
    const langgraph = { id: LANGGRAPH, name: "LangGraph itself" } as Result["contenders"][number];
    const samples = new Samples();
    // The first of each reads files that nobody has read for a while.
    for (const id of Object.keys(packages)) imported(id);
    for (let round = 0; round < (quick ? 15 : 41); round += 1) {
      for (const id of Object.keys(packages)) {
        const [before, own] = imported(id);
        if (id === OURS) samples.add(IMPORT, LANGGRAPH, before);
        samples.add(IMPORT, id, own);
      }
    }
    return {
      name: "import-cost",
      title: "Importing the package, beside importing LangGraph",
      contenders: [langgraph, ...all.filter(({ id }) => Object.hasOwn(packages, id))],
      samples,
      facts: {},
      notes: ["A fresh process imports LangGraph, then the saver's package; each takes turns."],
    };
  },
};

/** The processor time of importing LangGraph, and of importing this saver's package after it. */
function imported(id: string): [langgraph: number, saver: number] {
  const program = `
    const cpu = () => (({ user, system }) => (user + system) / 1_000)(process.cpuUsage());
    const begun = cpu();
    await import("@langchain/langgraph");
    const between = cpu();
    await import(${JSON.stringify(packages[id])});
    console.log(JSON.stringify([between - begun, cpu() - between]));`;
  const env = { ...process.env, NODE_OPTIONS: "" };
  return JSON.parse(
    execFileSync(process.execPath, ["--input-type=module", "--eval", program], { cwd: PROJECT, env, encoding: "utf8" }),
  ) as [number, number];
}
