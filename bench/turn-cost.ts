import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { HumanMessage } from "@langchain/core/messages";
import { Annotation, type BaseCheckpointSaver, START, StateGraph } from "@langchain/langgraph";
import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";
import { TurnSaver } from "langgraph-checkpoint-turns";

/**
 * What one turn of a conversation costs: a graph of one node appends two messages of about 500 B to a list, on one thread. The savers take
 * turns, one invoke each, so that what disturbs the machine disturbs all of them. Prints medians and quartiles of the first and the last
 * fifty turns, the ratio to the official saver at the end, and the size of the file.
 */
const TURNS = Number(process.argv[2] ?? 200);
const folder = mkdtempSync(join(tmpdir(), "turns-bench-"));
const State = Annotation.Root({
  messages: Annotation<HumanMessage[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
});

function contender(name: string, saver: BaseCheckpointSaver) {
  const graph = new StateGraph(State)
    .addNode("answer", () => ({ messages: [new HumanMessage("x".repeat(500))] }))
    .addEdge(START, "answer")
    .compile({ checkpointer: saver });
  if (saver instanceof TurnSaver) saver.attach(graph);
  return { name, graph, times: [] as number[] };
}

const contenders = [
  contender("official SqliteSaver (NORMAL)", SqliteSaver.fromConnString(join(folder, "0.db"))),
  contender("TurnSaver, turns recorded, normal", TurnSaver.fromPath(join(folder, "1.db"), { durability: "normal" })),
  contender("TurnSaver, turns recorded, full", TurnSaver.fromPath(join(folder, "2.db"))),
];

for (let turn = 0; turn < TURNS; turn += 1) {
  for (const { graph, times } of contenders) {
    const begun = performance.now();
    await graph.invoke({ messages: [new HumanMessage("y".repeat(500))] }, { configurable: { thread_id: "t" } });
    times.push(performance.now() - begun);
  }
}

function quartiles(times: readonly number[]): [number, number, number] {
  const sorted = times.toSorted((left, right) => left - right);
  const at = (share: number): number => sorted[Math.floor((sorted.length - 1) * share)] ?? 0;
  return [at(0.25), at(0.5), at(0.75)];
}

const shown = ([low, median, high]: [number, number, number]): string =>
  `${median.toFixed(1)} (${low.toFixed(1)}–${high.toFixed(1)})`;
const base = quartiles(contenders[0]?.times.slice(-50) ?? [])[1];
console.table(
  contenders.map(({ name, times }, index) => {
    const last = quartiles(times.slice(-50));
    const bytes = ["", "-wal"].map(
      (suffix) => statSync(join(folder, `${index}.db${suffix}`), { throwIfNoEntry: false })?.size ?? 0,
    );
    return {
      saver: name,
      "first 50, ms": shown(quartiles(times.slice(0, 50))),
      "last 50, ms": shown(last),
      "official / this": (base / last[1]).toFixed(2),
      "file, MB": (bytes.reduce((sum, size) => sum + size) / 1e6).toFixed(1),
    };
  }),
);
rmSync(folder, { recursive: true });
