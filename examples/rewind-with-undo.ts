// A trip is booked in three tasks. The plans change: the runner rewinds to the end of the first task and undoes the bookings of
// the other two, newest first. One of the undos fails at first, and the same call continues there.
import assert from "node:assert/strict";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { defineEffect, GraphRunner, TurnsError, TurnSaver } from "langgraph-checkpoint-turns";

/** The outside world: the bookings by the key of their effect, and whether its switchboard answers. */
const bookings = new Map<string, string>();
let lineIsDead = true;
const world = (): string => [...bookings.values()].join(", ") || "nothing";

const State = Annotation.Root({
  wanted: Annotation<string>,
  trip: Annotation<string[]>({ reducer: (old, added) => old.concat(added), default: () => [] }),
});

const book = defineEffect("book", {
  run: ({ wanted }: { wanted: string }, { key }) => {
    bookings.set(key, wanted);
    return `${wanted} booked`;
  },
  // A rewind calls it with the key, the input and the result of the effect that it undoes. Any process finds it by the effect's
  // name.
  undo: {
    run({ key, input }) {
      if (input.wanted === "hotel" && lineIsDead) throw new Error("the hotel does not answer");
      bookings.delete(key);
      console.log(`  cancelled: ${input.wanted}`);
    },
    // After a crash in the middle of a cancellation: was it done? Without a probe, a person would have to say.
    probe: ({ key }) => !bookings.has(key),
  },
});

const builder = new StateGraph(State)
  .addNode("book", async ({ wanted }) => ({ trip: [await book({ wanted })] }))
  .addEdge(START, "book")
  .addEdge("book", END);
const saver = TurnSaver.fromPath(":memory:");
const runner = new GraphRunner(builder.compile({ checkpointer: saver }));
const threadId = "trip";

for (const wanted of ["train", "hotel", "theatre"]) await runner.invoke({ wanted }, { threadId, taskId: wanted });
console.log(`in the world: ${world()}`);

const report = await runner.compensationReport({ threadId, toTask: "train" });
console.log(`covered: ${report.covered}; to undo: ${report.effects.map(({ taskId }) => taskId).join(", ")}`);
assert.equal(report.coverage, 1);

console.log("rewind to the end of task train:");
const error = await runner.rewind({ threadId, toTask: "train" }).catch((reason: unknown) => reason);
assert(TurnsError.is(error, "UNDO_FAILED"));
console.log(`  ${error.code}: ${(error.cause as Error).message}`);
console.log(`in the world: ${world()}; turns on the thread: ${(await saver.turns.list(threadId)).length}`);
assert.equal((await saver.turns.list(threadId)).length, 6, "nothing is deleted before everything is undone");

await assert.rejects(runner.invoke({ wanted: "museum" }, { threadId }), { code: "REWIND_UNFINISHED" });
console.log("new runs are refused meanwhile: REWIND_UNFINISHED");

lineIsDead = false;
console.log("the same call again:");
const done = await runner.rewind({ threadId, toTask: "train" });
console.log(`  undone now: ${done.effects.undone.length}, before: ${done.effects.undoneBefore.length}`);
console.log(`in the world: ${world()}; turns on the thread: ${(await saver.turns.list(threadId)).length}`);
assert.equal(world(), "train");
assert.deepEqual((await runner.graph.getState({ configurable: { thread_id: threadId } })).values.trip, ["train booked"]);
saver.close();
