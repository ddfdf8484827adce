import { PromptTemplate } from "@langchain/core/prompts";
import { RunnableBranch, RunnableLambda, RunnableMap } from "@langchain/core/runnables";
import { DynamicStructuredTool, tool } from "@langchain/core/tools";
import { Annotation, Command, END, entrypoint, MessagesAnnotation, Send, START, StateGraph } from "@langchain/langgraph";
import { createReactAgent, ToolNode } from "@langchain/langgraph/prebuilt";
import { FakeListChatModel } from "@langchain/core/utils/testing";
import { z } from "zod";

export const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
  x: Annotation<number>(),
});

class Agent extends FakeListChatModel {
  override bindTools(): this {
    return this;
  }
}

export function stateGraph(order: readonly string[] = ["a", "b", "c"]) {
  const nodes: Record<string, () => object> = {
    a: () => ({ log: ["a"] }),
    b: () => ({ log: ["b"] }),
    c: () => new Command({ goto: "sub", update: { log: ["c"] } }),
  };
  const inner = new StateGraph(State)
    .addNode("s1", () => ({ log: ["s1"] }))
    .addNode("s2", () => ({ log: ["s2"] }))
    .addEdge(START, "s1")
    .addEdge("s1", "s2")
    .compile();
  let builder: any = new StateGraph(State);
  for (const name of order) builder = builder.addNode(name, nodes[name], name === "c" ? { ends: ["sub"] } : undefined);
  return builder
    .addNode("sub", inner)
    .addEdge(START, "a")
    .addEdge(START, "b")
    .addEdge(["a", "b"], "c")
    .addConditionalEdges("sub", (state: typeof State.State) => (state.x > 1 ? "yes" : "no"), { yes: "a", no: END })
    .compile() as object;
}

const look = new DynamicStructuredTool({
  name: "look",
  description: "looks things up",
  schema: z.object({ query: z.string().min(1), deep: z.boolean().optional() }),
  func: ({ query }) => Promise.resolve(query),
});

/** One graph of each kind that LangGraph has. */
export function everyKind(): Record<string, object> {
  const hidden = tool(({ query }) => query, { name: "hidden", description: "x", schema: z.object({ query: z.string() }) });
  const sequence = RunnableLambda.from((state: typeof State.State) => state.x)
    .pipe(RunnableMap.from({ x: (value: number) => value + 1 }))
    .pipe(RunnableBranch.from([[({ x }: { x: number }) => x > 1, ({ x }: { x: number }) => ({ x })], () => ({ x: 0 })]))
    .withConfig({ tags: ["t"] });
  return {
    state: stateGraph(),
    agent: createReactAgent({ llm: new Agent({ responses: ["x"] }), tools: [look, hidden], prompt: "Be brief." }) as object,
    tools: new StateGraph(MessagesAnnotation)
      .addNode("tools", new ToolNode([look]))
      .addEdge(START, "tools")
      .compile(),
    sequence: new StateGraph(State)
      .addNode("s", sequence)
      .addNode(
        "p",
        PromptTemplate.fromTemplate("Say {x}").pipe(() => ({ x: 1 })),
      )
      .addEdge(START, "s")
      .addEdge("s", "p")
      .compile(),
    sends: new StateGraph(State)
      .addNode("w", () => ({}))
      .addConditionalEdges(START, () => [new Send("w", {})], ["w"])
      .compile(),
    functional: entrypoint({ name: "ep" }, (x: number) => Promise.resolve(x)),
  };
}
