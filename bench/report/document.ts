import { availableParallelism, platform, totalmem } from "node:os";
import type { Result } from "../scenarios/scenario";
import { type Promised, promisesText } from "./promises";
import { summaryText } from "./summary";
import { scenarioText } from "./table";

/** The class of machine; nothing that tells which one. */
export function machineText(): string {
  const cores = availableParallelism();
  const system = { linux: "Linux", darwin: "macOS", win32: "Windows" }[platform() as string] ?? platform();
  return `${cores} cores, ${Math.round(totalmem() / 2 ** 30)} GB, ${system}, Node ${process.versions.node}, better-sqlite3 with SQLite in WAL mode`;
}

/** The content of RESULTS.md. */
export function documentText(run: {
  command: string;
  results: readonly Result[];
  absent: readonly string[];
  promised: readonly Promised[];
}): string {
  return [
    "# Results",
    `\`${run.command}\`, on ${machineText()}.`,
    [
      "Medians, with quartiles in parentheses; the savers took turns within one run. Compare ratios rather than times.",
      "Files were in the operating system's cache. A ratio above 1× means that the saver of its row is better.",
      '"Whole step" is the time until Action, `putWrites`, `put` and Thought are all saved, handed in together as LangGraph does between two nodes.',
      "For savers without turns it is `putWrites` and `put`. The single times of these overlap. A saver that isn't attached still derives Thoughts from checkpoints.",
    ].join("\n"),
    run.absent.length === 0 ? "" : `Not measured: ${run.absent.join("; ")}.`,
    summaryText(run.results).trimEnd(),
    ...run.results.map((result) => scenarioText(result).trimEnd()),
    promisesText(run.promised).trimEnd(),
  ]
    .filter((part) => part !== "")
    .join("\n\n")
    .concat("\n");
}
