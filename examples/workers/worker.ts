import { appendFileSync } from "node:fs";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { defineEffect, GraphRunner, TurnSaver } from "langgraph-checkpoint-turns";

/**
 * One of several workers: `worker.ts <place> <name> [threads]`. It runs the threads that it is given, and takes over those of workers that are
 * gone. The place is a SQLite file, or with TURNS_PG_URL a schema of that PostgreSQL server. SIGTERM drains it.
 */
const [place = "", name = "", threads = ""] = process.argv.slice(2);
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const note = (line: string): void => appendFileSync(`${place}.log`, `${line}\n`);

const url = process.env["TURNS_PG_URL"];
const saver =
  url === undefined
    ? TurnSaver.fromPath(place)
    : (await import("langgraph-checkpoint-turns/postgres")).PostgresTurnSaver.fromConnString(url, {
        schema: process.env["TURNS_PG_SCHEMA"] ?? "turns",
      });

const State = Annotation.Root({ order: Annotation<string>(), parcel: Annotation<string>() });

// The shop knows the key, so a call that is repeated does nothing more.
const charge = defineEffect("charge", {
  run: async (order: string, { key }) => {
    await pause(50);
    note(`charged ${order} (${key})`);
    return key;
  },
  idempotent: true,
  undo: false,
});

const graph = new StateGraph(State)
  .addNode("pay", async ({ order }) => {
    await charge(order);
    note(`${name}: paid ${order}`);
    return {};
  })
  .addNode("pack", async ({ order }) => {
    await pause(2_000);
    note(`${name}: packed ${order}`);
    return { parcel: `parcel of ${order}` };
  })
  .addEdge(START, "pay")
  .addEdge("pay", "pack")
  .addEdge("pack", END)
  .compile({ checkpointer: saver });

// Both nodes may run again: all that `pay` does is its effect, and packing twice does no harm.
const nodes = { pay: { idempotent: true }, pack: { idempotent: true } };
const runner = new GraphRunner(graph, { graphId: "orders", nodes });
process.once("SIGTERM", () => void runner.drain({ timeoutMs: 5_000 }));

const own = threads.split(",").filter((thread) => thread !== "");
const begun = Promise.allSettled(own.map((threadId) => runner.invoke({ order: threadId }, { threadId })));
console.log(name, "is up");
for await (const report of runner.recoveries({ everyMs: 500, concurrency: 8 })) {
  for (const { threadId } of report.resumed) note(`${name}: took over ${threadId}`);
}
await begun;
