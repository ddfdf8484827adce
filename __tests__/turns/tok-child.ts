import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { AnsweringModel, StreamingModel, usage } from "./tok-model";
import { openSaver } from "../support/open-saver";

/** Calls models in a node and is killed in the middle of it: `tok-child.ts <db>`. */
const [path = ""] = process.argv.slice(2);
const die = (): boolean => process.kill(process.pid, "SIGKILL");
const saver = openSaver(path);
const model = new AnsweringModel([{ text: "one", usage: usage(10, 5, 4, 2) }]);
const graph = saver.attach(
  new StateGraph(Annotation.Root({ x: Annotation<number>() }))
    .addNode("agent", async () => {
      await model.invoke("hello");
      const stream = await new StreamingModel([{ text: "a", usage: usage(100, 0) }, { text: "b" }, { text: "c" }]).stream("on");
      let chunks = 0;
      for await (const _ of stream) if (++chunks === 2) die();
      return {};
    })
    .addEdge(START, "agent")
    .compile({ checkpointer: saver }),
);
await graph.invoke({ x: 1 }, { configurable: { thread_id: "t" } });
