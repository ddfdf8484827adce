import { readFileSync } from "node:fs";
import { repeatsNestedSiblings } from "../support/langgraph-version";
import { runProgram } from "../support/s1-programs";
import { tempFile } from "../support/temp";

/** What ran over a crash in q, beside or behind p inside a graph within a graph, and a resume in another process. */
function ranOverCrash(kind: string, saver: string): string[] {
  const [database, lines] = [tempFile(), tempFile("lines")];
  expect(runProgram("langgraph/nested-child.ts", database, lines, kind, saver)).toMatchObject({ signal: "SIGKILL" });
  expect(runProgram("langgraph/nested-child.ts", database, lines, kind, saver)).toMatchObject({ code: 0, errors: "" });
  return readFileSync(lines, "utf8").trim().split("\n");
}

describe("S2.5 finished siblings inside a nested graph, over a crash", () => {
  test.each(["graph", "call", "entrypoint"])("S2.5 attached, they don't run again (%s)", (kind) => {
    expect(ranOverCrash(kind, "attached")).toEqual(["p", "q", "q", "z"]);
  });

  // Whether LangGraph itself repeats them decides whether the repair is needed; it stays for the versions that do.
  test.each(["graph", "call", "entrypoint"].flatMap((kind) => ["turns", "official"].map((saver) => [kind, saver] as const)))(
    `S2.5 without it, LangGraph ${repeatsNestedSiblings ? "runs them again" : "leaves them alone"} (%s, %s)`,
    (kind, saver) => {
      const again = repeatsNestedSiblings ? ["p"] : [];
      expect(ranOverCrash(kind, saver)).toEqual(["p", "q", ...again, "q", "z"]);
    },
  );
});
