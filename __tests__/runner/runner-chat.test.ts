import { type BaseMessage, HumanMessage } from "@langchain/core/messages";
import { FakeListChatModel } from "@langchain/core/utils/testing";
import { Send, START, StateGraph } from "@langchain/langgraph";
import { createReactAgent } from "@langchain/langgraph/prebuilt";
import { GraphRunner, type TurnSaver } from "langgraph-checkpoint-turns";
import { State, world } from "../support/run-world";
import { copyStore } from "../support/s1-tools";

class TooManyRequests extends Error {
  readonly status = 429;
}

/** A model that is refused while `busy.now`. */
class BusyModel extends FakeListChatModel {
  readonly busy: { now: boolean };

  constructor(busy: { now: boolean }) {
    super({ responses: ["answer 1", "answer 2", "answer 3"] });
    this.busy = busy;
  }

  override bindTools(): this {
    return this;
  }

  override async _generate(...given: Parameters<FakeListChatModel["_generate"]>): ReturnType<FakeListChatModel["_generate"]> {
    this.#refuse();
    return super._generate(...given);
  }

  override async *_streamResponseChunks(...given: Parameters<FakeListChatModel["_streamResponseChunks"]>) {
    this.#refuse();
    yield* super._streamResponseChunks(...given);
  }

  #refuse(): void {
    if (this.busy.now) throw new TooManyRequests("429: too many requests");
  }
}

const say = (text: string) => ({ messages: [new HumanMessage(text)] });
const texts = ({ messages }: { messages: BaseMessage[] }): unknown[] => messages.map(({ content }) => content);

describe("S8.3 a chat continues after a model's 429", () => {
  const chat = (onUnfinished?: "finish" | "abandon") => {
    const at = world();
    const busy = { now: true };
    const agent = createReactAgent({ llm: new BusyModel(busy), tools: [], checkpointer: at.saver });
    return { at, busy, runner: new GraphRunner(agent, { onUnfinished }) };
  };

  test("S8.3 the next message is refused with the option that lets it through, in the exact line", async () => {
    const { at, busy, runner } = chat();
    await expect(runner.invoke(say("one"), { threadId: "t" })).rejects.toThrow("429");
    busy.now = false;
    await expect(runner.invoke(say("two"), { threadId: "t" })).rejects.toMatchObject({
      code: "UNFINISHED_WORK",
      message:
        'The last run of thread "t" stopped at "agent", so new input is refused: it would drop that work. ' +
        'Continue it first: await runner.resume({ threadId: "t" }). ' +
        'Or let the call do that: await runner.invoke(input, { threadId: "t", onUnfinished: "finish" }); "abandon" drops the work instead. ' +
        'For a chat, say it once: new GraphRunner(graph, { onUnfinished: "finish" }).',
    });
    expect(texts(await runner.invoke(say("two"), { threadId: "t", onUnfinished: "finish" }))).toEqual([
      "one",
      "answer 1",
      "two",
      "answer 2",
    ]);
    at.saver.close();
  });

  test("S8.3 finish answers the old message, then takes the new one; each is a task of its own; while the model is busy, nothing is lost", async () => {
    const { at, busy, runner } = chat("finish");
    await expect(runner.invoke(say("one"), { threadId: "t", taskId: "1" })).rejects.toThrow("429");
    await expect(runner.invoke(say("two"), { threadId: "t", taskId: "2" })).rejects.toThrow("429");
    busy.now = false;
    const chunks = [];
    for await (const chunk of await runner.stream(say("two"), { threadId: "t", taskId: "2", streamMode: "values" }))
      chunks.push(chunk);
    expect(texts(chunks.at(-1)!)).toEqual(["one", "answer 1", "two", "answer 2"]);
    expect((await at.saver.turns.tasks("t")).map(({ taskId }) => taskId)).toEqual(["1", "2"]);
    at.saver.close();
  });

  test("S8.3 abandon drops the unfinished work: the model answers both messages at once", async () => {
    const { at, busy, runner } = chat("abandon");
    await expect(runner.invoke(say("one"), { threadId: "t" })).rejects.toThrow("429");
    busy.now = false;
    expect(texts(await runner.invoke(say("two"), { threadId: "t" }))).toEqual(["one", "two", "answer 1"]);
    expect(await runner.status("t")).toMatchObject({ finished: true, failed: [] });
    at.saver.close();
  });

  test("S8.3 the tokens of a status are those of the last run", async () => {
    const { at, busy, runner } = chat();
    busy.now = false;
    await runner.invoke(say("one"), { threadId: "t" });
    const { input, output } = (await at.saver.turns.tokenUsage("t")).total;
    expect((await runner.status("t")).tokens).toMatchObject({ input, output });
    at.saver.close();
  });
});

describe("S8.3 S2.9 what runs again after a crash gives one warning, where it could repeat something", () => {
  /** sub { x } beside three `w`s, all of which hang until `now` is over; the database as a crash would leave it. */
  async function crashed(nodes: ConstructorParameters<typeof GraphRunner>[1]) {
    const at = world();
    let hangs = true;
    const body = (name: string) => () => (hangs ? new Promise<never>(() => undefined) : { log: [name] });
    const build = (saver: TurnSaver) => {
      const inner = new StateGraph(State).addNode("x", body("x")).addEdge(START, "x").compile();
      return new StateGraph(State)
        .addNode("sub", inner)
        .addNode("w", body("w"))
        .addNode("later", body("later"))
        .addEdge(START, "sub")
        .addConditionalEdges(START, () => [1, 2, 3].map(() => new Send("w", { log: [] })), ["w"])
        .addEdge("sub", "later")
        .compile({ checkpointer: saver });
    };
    void new GraphRunner(build(at.saver)).invoke({ log: [] }, { threadId: "t" }).catch(() => undefined);
    while ((await at.saver.turns.inFlight("t")).length < 5) await new Promise((resolve) => setTimeout(resolve, 5));
    const copy = `${at.path}-copy`;
    copyStore(at.path, copy);
    at.saver.close();
    hangs = false;
    const later = world(copy);
    await later.saver.copyThread("t", "u");
    const runner = new GraphRunner(build(later.saver), { drift: "continue", ...nodes });
    await runner.resume({ threadId: "u" });
    later.saver.close();
    return later.warnings.filter((message) => message.startsWith("Re-running")).sort();
  }

  test("S8.3 S2.9 once for a node, with the count of its tasks; none for the graph around a node, none for a node that had not begun", async () => {
    expect(await crashed({})).toEqual([
      'Re-running 3 tasks of node "w" of thread "u": their last attempts stopped before the result was saved. ' +
        "Anything they did outside effect() may happen twice. To silence this: new GraphRunner(graph, { nodes: { w: { idempotent: true } } })",
      'Re-running node "sub|x" of thread "u": its last attempt stopped before the result was saved. ' +
        'Anything it did outside effect() may happen twice. To silence this: new GraphRunner(graph, { nodes: { "sub|x": { idempotent: true } } })',
    ]);
  });

  test("S8.3 S2.9 the line that it names silences it", async () => {
    expect(await crashed({ nodes: { w: { idempotent: true }, "sub|x": { idempotent: true } } })).toEqual([]);
  });
});
