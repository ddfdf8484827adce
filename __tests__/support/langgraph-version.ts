import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

const require = createRequire(__filename);

/** Which versions the tests run with: what LangGraph itself does differently is expected of each as it does it. */
export const installed = {
  langgraph: versionOf("@langchain/langgraph"),
  checkpoint: versionOf("@langchain/langgraph-checkpoint"),
  core: versionOf("@langchain/core"),
};

/** Whether LangGraph passes task paths to `putWrites`, and applies delta writes in their order; before, in the order of task ids. */
export const passesTaskPaths = isAtLeast(installed.langgraph, "1.5.0");

/**
 * Whether parallel delta writes reload in the run's order. LangGraph 1.4 applies them by task id. With "exit" it stores them under ids
 * whose first group is the step instead, and so loses that order: its own MemorySaver reloads them by the rest of the id.
 */
export function keepsDeltaOrder(durability: "async" | "sync" | "exit"): boolean {
  return passesTaskPaths || durability !== "exit";
}

/*
 * The following were measured on 1.4.17 and on 1.7.3; where between the two LangGraph changed wasn't looked up.
 */
const isNewer = isAtLeast(installed.langgraph, "1.5.0");

/** Whether a run ends when its stream's reader leaves; before, its nodes went on in the background. */
export const abortsLeftStreams = isNewer;

/** Whether finished siblings inside a subgraph run again after a failure or a crash, unless the graph is attached. */
export const repeatsNestedSiblings = !isNewer;

/** Whether finished siblings run again in a resume that names the head's own `checkpoint_id`. */
export const repeatsSiblingsOfNamedHead = !isNewer;

/** Whether each question of a node has an id of its own. */
export const questionsHaveOwnIds = isNewer;

/** The version of an installed package, whatever its `exports` say. */
function versionOf(name: string): string {
  for (let folder = dirname(require.resolve(name)); ; folder = dirname(folder)) {
    try {
      const found = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as { name?: string; version?: string };
      if (found.name === name && found.version !== undefined) return found.version;
    } catch {
      if (folder === dirname(folder)) throw new Error(`no package.json of ${name} was found`);
    }
  }
}

function isAtLeast(version: string, wanted: string): boolean {
  const numbers = (text: string): number[] => text.split(".").map(Number);
  const [left, right] = [numbers(version), numbers(wanted)];
  const at = left.findIndex((number, index) => number !== right[index]);
  return at === -1 || (left[at] ?? 0) > (right[at] ?? 0);
}

/** Whether `interrupt()` takes a `responseSchema`, and refuses answers that don't match it. */
export const refusesAnswers = isNewer;

/** Whether a node can have a `timeout`. */
export const hasNodeTimeouts = isNewer;
