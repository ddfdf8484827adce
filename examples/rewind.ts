// Three tasks on one thread: rewind to the end of the first, see beforehand what would be removed, and take the rewind back.
import assert from "node:assert/strict";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { GraphRunner, TurnSaver } from "langgraph-checkpoint-turns";

const State = Annotation.Root({
  entry: Annotation<string>,
  diary: Annotation<string[]>({ reducer: (old, added) => old.concat(added), default: () => [] }),
});
const builder = new StateGraph(State)
  .addNode("write", (state) => ({ diary: [state.entry] }))
  .addEdge(START, "write")
  .addEdge("write", END);

const saver = TurnSaver.fromPath(":memory:");
const runner = new GraphRunner(builder.compile({ checkpointer: saver }));
const threadId = "diary";
const tasks = ["monday", "tuesday", "wednesday"];
const diary = async (): Promise<string[]> =>
  (await runner.graph.getState({ configurable: { thread_id: threadId } })).values.diary;

for (const taskId of tasks) await runner.invoke({ entry: `written on ${taskId}` }, { threadId, taskId });
console.log(`the diary: ${(await diary()).join("; ")}`);

const plan = await runner.rewind({ threadId, toTask: "monday", tasks, dryRun: true });
console.log(
  `dry run: tasks ${plan.tasks.join(", ")} would go, ${plan.removed.turns} turns, ${plan.removed.checkpoints} checkpoints`,
);
assert.deepEqual(plan.tasks, ["tuesday", "wednesday"]);
assert.equal((await diary()).length, 3, "a dry run changes nothing");

const report = await runner.rewind({ threadId, toTask: "monday", tasks });
console.log(`after the rewind: ${(await diary()).join("; ")}`);
assert.deepEqual(await diary(), ["written on monday"]);
assert.deepEqual(report.removed, plan.removed);

await assert.rejects(runner.rewind({ threadId, toTask: "friday" }), { code: "UNKNOWN_TASK" });
console.log("a task that does not exist is refused with UNKNOWN_TASK, and nothing is deleted");

await saver.rewinds.takeBack(report.rewindId!);
console.log(`taken back: ${(await diary()).join("; ")}`);
assert.equal((await diary()).length, 3);
saver.close();
