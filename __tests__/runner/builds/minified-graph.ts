// Prints the description of a graph with every kind of library class, as a user's bundle sees it.
import { tool } from "@langchain/core/tools";
import { ChatPromptTemplate } from "@langchain/core/prompts";
import { StringOutputParser } from "@langchain/core/output_parsers";
import { Runnable, RunnableBranch, RunnableLambda, RunnableParallel, RunnablePassthrough } from "@langchain/core/runnables";
import { FakeListChatModel } from "@langchain/core/utils/testing";
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { fingerprintOf } from "../../../src/testing-internal";

const State = Annotation.Root({
  messages: Annotation<unknown[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
});

class Doubling extends Runnable {
  lc_namespace = ["mine"];
  async invoke(state: { messages: unknown[] }) {
    return { messages: [...state.messages, ...state.messages] };
  }
}

const search = tool((input: { query: string }) => input.query.toUpperCase(), {
  name: "search",
  description: "Searches",
  schema: { type: "object", properties: { query: { type: "string" } } },
});
const nodes = {
  plain: async (state: { messages: unknown[] }) => ({ messages: state.messages.slice(0, 2) }),
  lambda: RunnableLambda.from((state: { messages: unknown[] }) => ({ messages: [state.messages.length] })),
  sequence: RunnablePassthrough.assign({ a: (state: { messages: unknown[] }) => state.messages }).pipe((state) => ({
    messages: [state],
  })),
  chain: ChatPromptTemplate.fromMessages([["human", "Say {messages}"]])
    .pipe(new FakeListChatModel({ responses: ["x"] }))
    .pipe(new StringOutputParser())
    .pipe((text: string) => ({ messages: [text] })),
  branch: RunnableBranch.from([
    [(state: { messages: unknown[] }) => state.messages.length > 2, () => ({ messages: [1] })],
    () => ({ messages: [2] }),
  ] as never),
  retry: RunnableLambda.from((state: { messages: unknown[] }) => ({ messages: [state] })).withRetry({ stopAfterAttempt: 2 }),
  parallel: RunnableParallel.from({ messages: (state: { messages: unknown[] }) => [state.messages[0]] }),
  own: new Doubling(),
  tools: new ToolNode([search]),
};

let builder = new StateGraph(State) as any;
let before: string = START;
for (const [name, node] of Object.entries(nodes)) {
  builder = builder.addNode(name, node).addEdge(before, name);
  before = name;
}
const document = fingerprintOf(builder.compile());
process.stdout.write(JSON.stringify(document));
