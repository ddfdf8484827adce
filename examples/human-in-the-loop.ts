// A node asks a person, and the run stops. The answer comes later. Work done before the question isn't repeated.
import assert from "node:assert/strict";
import { Annotation, Command, END, interrupt, START, StateGraph } from "@langchain/langgraph";
import { GraphRunner, TurnSaver } from "langgraph-checkpoint-turns";

const ran: string[] = [];
const State = Annotation.Root({ letter: Annotation<string>, sent: Annotation<boolean> });
const builder = new StateGraph(State)
  .addNode("draft", () => {
    ran.push("draft");
    return { letter: "Dear Sir or Madam, …" };
  })
  .addNode("approve", (state) => {
    ran.push("approve");
    const answer: unknown = interrupt({ question: "Send this letter?", letter: state.letter });
    return { sent: answer === "yes" };
  })
  .addEdge(START, "draft")
  .addEdge("draft", "approve")
  .addEdge("approve", END);

const saver = TurnSaver.fromPath(":memory:");
const runner = new GraphRunner(builder.compile({ checkpointer: saver }));
const threadId = "letter-1";

await runner.invoke({}, { threadId, taskId: "send the letter" });
const state = await runner.graph.getState({ configurable: { thread_id: threadId } });
console.log(`the run waits at ${state.next.join()}: ${JSON.stringify(state.tasks[0]?.interrupts[0]?.value)}`);
assert.deepEqual(state.next, ["approve"]);

await assert.rejects(runner.invoke({}, { threadId, taskId: "another task" }), { code: "UNFINISHED_WORK" });
console.log("new input is refused with UNFINISHED_WORK: it would drop the question");

const result = await runner.resume({ threadId, command: new Command({ resume: "yes" }) });
console.log(`after the answer: sent = ${result.sent}`);
assert.equal(result.sent, true);

const actions = (await saver.turns.list(threadId)).filter((turn) => turn.turnType === "Action");
console.log(`actions: ${actions.map((turn) => `${turn.nodeName}#${turn.attempt} ${turn.status ?? ""}`).join(", ")}`);
console.log(`node bodies: ${ran.join(", ")}`);
assert.deepEqual(
  actions.map((turn) => [turn.nodeName, turn.attempt, turn.status]),
  [
    ["draft", 1, "ok"],
    ["approve", 1, "interrupted"],
    ["approve", 2, "ok"],
  ],
);
// When LangGraph has the answer, it runs the node that asked again from its beginning. Put work before the question into a node
// of its own.
assert.deepEqual(ran, ["draft", "approve", "approve"]);
saver.close();
