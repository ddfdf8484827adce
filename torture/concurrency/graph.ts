import { appendFileSync } from "node:fs";
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import type { TurnSaver } from "../../src/index";
import { effectUndoneBy } from "../../__tests__/support/undo-world";

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
  next: Annotation<string>(),
});

/** Notes each value outside, in a ledger that only grows, and then in its log. */
export function noting(saver: TurnSaver, ledger: string) {
  return new StateGraph(State)
    .addNode("note", async ({ next }) => {
      await effectUndoneBy("forget", "note", () => appendFileSync(ledger, `+${next}\n`), { input: next });
      return { log: [next] };
    })
    .addNode("rest", () => ({}))
    .addEdge(START, "note")
    .addEdge("note", "rest")
    .compile({ checkpointer: saver });
}

export const undos = (ledger: string) => ({
  forget: ({ input }: { input: unknown }): void => appendFileSync(ledger, `-${String(input)}\n`),
});

/** A value names its thread: `<thread>#<number>`. */
export const valueOf = (threadId: string, number: number): string => `${threadId}#${String(number).padStart(6, "0")}`;
