import { Annotation, type BaseCheckpointSaver, Command, END, interrupt, Send, START, StateGraph } from "@langchain/langgraph";
import { GraphRunner, TurnsError } from "../../src/index";
import { openSaver } from "../support/open-saver";

/** What a process does at one of its questions. */
export interface Mishap {
  question: string;
  /** Before it asks, or as soon as it has its answer. */
  when: "before" | "after";
  how: "kill" | "throw";
  /** How long it waits before that, in milliseconds. Meanwhile the nodes beside it go on. */
  waitMs: number;
}

export const State = Annotation.Root({
  i: Annotation<number>({ reducer: (_, next) => next, default: () => 0 }),
  log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
});

/** Graphs whose nodes ask one after another, and beside each other. Each node logs `question=answer`. */
export function answersGraph(shape: Shape, checkpointer: BaseCheckpointSaver, mishap?: Mishap) {
  const ask = async (question: string): Promise<string> => {
    if (mishap?.when === "before") await meet(question, mishap);
    const answer: string = interrupt(question);
    if (mishap?.when === "after") await meet(question, mishap);
    return `${question}=${answer}`;
  };
  const asks =
    (name: string, times: number) =>
    async ({ i }: typeof State.State) => {
      const log: string[] = [];
      for (let index = 0; index < times; index += 1) log.push(await ask(`${name}${i}-${index}`));
      return { log };
    };
  const chain = () =>
    new StateGraph(State)
      .addNode("x", asks("x", 1))
      .addNode("y", asks("y", 2))
      .addEdge(START, "x")
      .addEdge("x", "y")
      .addEdge("y", END)
      .compile();
  const fork = () =>
    new StateGraph(State)
      .addNode("x", asks("x", 2))
      .addNode("y", asks("y", 1))
      .addEdge(START, "x")
      .addEdge(START, "y")
      .addEdge("x", END)
      .addEdge("y", END)
      .compile();
  const deep = () => new StateGraph(State).addNode("mid", fork()).addEdge(START, "mid").addEdge("mid", END).compile();
  const to = (node: string, count: number) => () => Array.from({ length: count }, (_, i) => new Send(node, { i }));
  const begun = () => new StateGraph(State).addNode("begin", () => ({})).addEdge(START, "begin");
  const end = () => ({ log: ["end"] });
  const beside = (sub: ReturnType<typeof chain>) =>
    begun()
      .addNode("sub", sub)
      .addNode("q", asks("q", 1))
      .addNode("end", end)
      .addEdge("begin", "sub")
      .addEdge("begin", "q")
      .addEdge(["sub", "q"], "end");
  const workers = (sub: ReturnType<typeof chain>) =>
    begun().addNode("sub", sub).addNode("end", end).addConditionalEdges("begin", to("sub", 2), ["sub"]).addEdge("sub", "end");
  const shapes = {
    parallel: () =>
      begun()
        .addNode("p", asks("p", 2))
        .addNode("q", asks("q", 1))
        .addNode("end", end)
        .addEdge("begin", "p")
        .addEdge("begin", "q")
        .addEdge(["p", "q"], "end"),
    workers: () =>
      begun().addNode("p", asks("p", 2)).addNode("end", end).addConditionalEdges("begin", to("p", 3), ["p"]).addEdge("p", "end"),
    nested: () => beside(chain()),
    "nested side by side": () => beside(fork()),
    deep: () => beside(deep() as ReturnType<typeof fork>),
    "one by one": () =>
      begun()
        .addNode("p", asks("p", 3))
        .addNode("sub", chain())
        .addNode("end", end)
        .addEdge("begin", "p")
        .addEdge("p", "sub")
        .addEdge("sub", "end"),
    "nested workers": () => workers(chain()),
    "workers side by side": () => workers(fork()),
  } satisfies Record<Shape, unknown>;
  return shapes[shape]().compile({ checkpointer }) as ReturnType<ReturnType<typeof beside>["compile"]>;
}

export const QUESTIONS = {
  parallel: ["p0-0", "p0-1", "q0-0"],
  workers: [0, 1, 2].flatMap((i) => [`p${i}-0`, `p${i}-1`]),
  nested: ["x0-0", "y0-0", "y0-1", "q0-0"],
  "nested side by side": ["x0-0", "x0-1", "y0-0", "q0-0"],
  deep: ["x0-0", "x0-1", "y0-0", "q0-0"],
  "one by one": ["p0-0", "p0-1", "p0-2", "x0-0", "y0-0", "y0-1"],
  "nested workers": [0, 1].flatMap((i) => [`x${i}-0`, `y${i}-0`, `y${i}-1`]),
  "workers side by side": [0, 1].flatMap((i) => [`x${i}-0`, `x${i}-1`, `y${i}-0`]),
};
export type Shape = keyof typeof QUESTIONS;

async function meet(at: string, { question, how, waitMs }: Mishap): Promise<void> {
  if (at !== question) return;
  await new Promise((resolve) => setTimeout(resolve, waitMs));
  if (how === "throw") throw new Error("on purpose");
  process.kill(process.pid, "SIGKILL");
}

/** The processes compile this file in two ways, so the graph seems to have changed. */
export const CONTINUED = { drift: "continue" } as const;

/** Starts the thread, or resumes it with answers by id or a plain one; null: without an answer. */
export async function resumed(path: string, shape: Shape, resume: unknown, mishap?: Mishap): Promise<"refused" | "ran"> {
  const saver = openSaver(path, { logger: { debug() {}, info() {}, warn() {}, error() {} } });
  const runner = new GraphRunner(answersGraph(shape, saver, mishap), CONTINUED);
  try {
    if (resume !== null) await runner.resume({ threadId: "t", command: new Command({ resume }) });
    else if ((await runner.status("t")).taskId === undefined) await runner.invoke({}, { threadId: "t" });
    else await runner.resume({ threadId: "t" });
    return "ran";
  } catch (error) {
    if (TurnsError.is(error, "UNKNOWN_INTERRUPT")) return "refused";
    if (error instanceof Error && error.message === "on purpose") return "ran";
    throw error;
  } finally {
    await (saver.close() as unknown);
  }
}
