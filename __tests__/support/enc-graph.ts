import { HumanMessage } from "@langchain/core/messages";
import { Annotation, Command, END, interrupt, MessagesAnnotation, Send, START, StateGraph } from "@langchain/langgraph";
import { effect, type TurnSaver } from "../../src/index";
import { dieNow } from "./s1-tools";

export const KEY = Buffer.from("6b1f0c93d2a4e58717c90ab3fe5d62480199aabbccddeeff1122334455667788", "hex").toString("base64");
/** Stands in everything that a run can save; in no name and no id. */
export const SECRET = "Zq7xSwordfishKestrel";
/** Short enough for a manifest, if values stood there. */
export const SMALL = "pin-4711-Wq";

const State = Annotation.Root({
  ...MessagesAnnotation.spec,
  log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
  files: Annotation<Record<string, string>>({ reducer: (left, right) => ({ ...left, ...right }), default: () => ({}) }),
  pin: Annotation<string>(),
  mode: Annotation<"ask" | "break" | "die" | "go">(),
});
const Inner = Annotation.Root({ log: State.spec.log, inner: Annotation<string>() });

export const input = (mode: "ask" | "break" | "die" | "go", text = "") => ({
  messages: [new HumanMessage(`${SECRET} ${text} ${"long ".repeat(60)}`)],
  files: { "a.txt": `${SECRET} ${"file ".repeat(80)}`, "b.txt": SECRET },
  pin: SMALL,
  mode,
});

/** plan → (work ∥ work by Send) → sub (a graph with checkpoints) → ask (a person), or break, or not → done. */
export function secretGraph(saver: TurnSaver) {
  const sub = new StateGraph(Inner)
    .addNode("s1", () => ({ inner: `${SECRET} inside` }))
    .addNode("s2", (state) => ({ log: [`s2 ${state.inner}`] }))
    .addEdge(START, "s1")
    .addEdge("s1", "s2")
    .addEdge("s2", END)
    .compile();
  const graph = new StateGraph(State)
    .addNode("plan", async () => {
      const draft = () => ({ log: [`plan ${SECRET}`], messages: [new HumanMessage(`${SECRET} plan ${"x".repeat(400)}`)] });
      return effect("draft", draft, { input: { about: `${SECRET} ${"y".repeat(400)}` }, undo: false });
    })
    .addNode("work", (packet: { part: string }) => ({ log: [`work ${packet.part}`] }))
    .addNode("sub", sub)
    .addNode("ask", (state) => {
      if (state.mode === "break") throw new Error(`broken: ${SECRET}`);
      if (state.mode === "die") dieNow();
      return state.mode === "ask" ? { log: [`answer ${String(interrupt({ question: SECRET }))}`] } : {};
    })
    .addNode("done", () => ({ log: ["done"] }))
    .addEdge(START, "plan")
    .addConditionalEdges("plan", () => [new Send("work", { part: `${SECRET} 1` }), new Send("work", { part: `${SECRET} 2` })], [
      "work",
    ])
    .addEdge("work", "sub")
    .addEdge("sub", "ask")
    .addEdge("ask", "done")
    .addEdge("done", END)
    .compile({ checkpointer: saver });
  return saver.attach(graph);
}

export const answer: any = new Command({ resume: `${SECRET} yes` });
export const at = (threadId: string) => ({ configurable: { thread_id: threadId }, metadata: { note: SECRET } });
