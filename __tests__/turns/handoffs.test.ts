import { Annotation, Command, END, Send, START, StateGraph } from "@langchain/langgraph";
import { effect, GraphRunner, type GraphRunnerOptions, type TurnSaver } from "langgraph-checkpoint-turns";
import { setFailpointHandler } from "../../src/testing-internal";
import { attached, closeAll, Deeds, fresh, line, open, refusal, thread } from "../support/eff-world";

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
});

/** What stops a node reaches the caller, and never the console. */
beforeEach(() => void jest.spyOn(console, "error").mockImplementation(() => undefined));
afterEach(() => {
  expect(console.error).not.toHaveBeenCalled();
  jest.restoreAllMocks();
  setFailpointHandler(undefined);
  closeAll();
});

const actions = async (saver: TurnSaver) =>
  (await saver.turns.list("t"))
    .filter((turn) => turn.turnType === "Action")
    .map((turn) => `${turn.nodeName}#${turn.attempt} ${turn.status} ${turn.validation?.verdict ?? "-"}`);

/** The update of the Command that an Action holds. */
const handedOn = async (saver: TurnSaver, turn: Parameters<TurnSaver["turns"]["state"]>[0]): Promise<unknown> =>
  ((await saver.turns.state(turn))["output"] as Command | undefined)?.update;

/** Does a deed whose outcome it does not learn the first time; later it would succeed. */
async function risky(deeds: Deeds): Promise<void> {
  await effect(
    "mail",
    () => {
      deeds.do("mail");
      if (deeds.count("mail") === 1) throw new Error("timeout");
      return "sent";
    },
    { input: { to: "x" }, onError: "unknown" },
  );
}

const handedOver = (goto: string, log: string) => new Command({ graph: Command.PARENT, goto, update: { log: [log] } });

/** A graph whose node `sub` holds, or calls, one of a single node; `next` follows by a handoff, and may lead back. */
function withSubgraph(
  saver: TurnSaver,
  inner: () => unknown,
  { closed = false, next = (): unknown => ({ log: ["next"] }) } = {},
) {
  const sub = new StateGraph(State)
    .addNode("inner", inner as () => typeof State.Update, { ends: [] })
    .addEdge(START, "inner")
    .compile();
  return new StateGraph(State)
    .addNode("sub", closed ? (state: typeof State.State) => sub.invoke(state) : sub, { ends: ["next"] })
    .addNode("next", next as () => typeof State.Update)
    .addEdge(START, "sub")
    .addConditionalEdges("next", ({ log }) => (log.includes("again") && log.length < 6 ? "sub" : END), ["sub", END])
    .compile({ checkpointer: saver });
}

describe("a handoff past a doubt", () => {
  test.each([false, true])(
    "S2.9 a node that catches its doubt and hands over to the parent fails (in a closure: %s)",
    async (closed) => {
      const saver = open(fresh());
      const deeds = new Deeds();
      const inner = async () => {
        try {
          await risky(deeds);
          return { log: ["sent"] };
        } catch {
          return handedOver("next", "caught");
        }
      };
      const graph = saver.attach(withSubgraph(saver, inner, { closed, next: () => ({ log: ["again"] }) }));
      expect(await refusal(graph.invoke({ log: [] }, thread()))).toMatchObject({ code: "EFFECT_IN_DOUBT" });
      expect(await actions(saver)).toEqual(["inner#1 error -", "sub#1 error -"]);
      expect(await refusal(graph.invoke(null, thread()))).toMatchObject({ code: "EFFECT_IN_DOUBT" });
      expect(deeds.lines()).toEqual(["mail"]);
      const [doubt] = await saver.effects.list("t");
      expect(doubt).toMatchObject({ status: "in-doubt" });
      await saver.effects.resolve(doubt?.id ?? "", { outcome: "done", result: "sent" });
      expect(await graph.invoke(null, thread())).toEqual({ log: ["sent"] });
      expect(deeds.lines()).toEqual(["mail"]);
    },
  );

  test("S2.9 so does the node around a graph that handed over, where only an earlier graph in it met the doubt", async () => {
    const saver = open(fresh());
    const deeds = new Deeds();
    const first = line({ act: () => risky(deeds).then(() => ({ log: ["sent"] })) }).compile();
    const second = line({ leave: () => handedOver("next", "left") }).compile();
    const graph = saver.attach(
      new StateGraph(State)
        .addNode(
          "both",
          async (state: typeof State.State) => {
            await first.invoke(state).catch(() => undefined);
            return second.invoke(state);
          },
          { ends: ["next"] },
        )
        .addNode("next", () => ({ log: ["next"] }))
        .addEdge(START, "both")
        .compile({ checkpointer: saver }),
    );
    expect(await refusal(graph.invoke({ log: [] }, thread()))).toMatchObject({ code: "EFFECT_IN_DOUBT" });
    expect(await actions(saver)).toEqual(["act#1 error -", "leave#1 handoff -", "both#1 error -"]);
  });

  test("S1.8 without a doubt a handoff goes through, and its Action holds what was handed over", async () => {
    const saver = open(fresh());
    const graph = saver.attach(withSubgraph(saver, () => handedOver("next", "bye")));
    expect(await graph.invoke({ log: [] }, thread())).toEqual({ log: ["bye", "next"] });
    expect(await actions(saver)).toEqual(["inner#1 handoff -", "sub#1 ok -", "next#1 ok -"]);
    const turns = (await saver.turns.list("t")).filter((turn) => turn.turnType === "Action");
    for (const turn of turns.slice(0, 2)) expect(await handedOn(saver, turn)).toEqual({ log: ["bye"] });
  });
});

describe("a handoff past a gate", () => {
  const handsOver = (saver: TurnSaver, nodes: GraphRunnerOptions["nodes"], drafts = ["bad", "good"]) => {
    const runner = new GraphRunner(
      withSubgraph(saver, () => handedOver("next", drafts.length > 1 ? (drafts.shift() ?? "") : (drafts[0] ?? ""))),
      nodes === undefined ? {} : { nodes },
    );
    return runner;
  };
  /** Sure of all that is not bad; notes what it was asked about. */
  const judge =
    (asked: unknown[] = []) =>
    (output: unknown) => {
      const { log } = (output as Command).update as { log: string[] };
      asked.push(log[0]);
      return log.includes("bad") ? 0.1 : 1;
    };

  test.each(["inner", "sub|inner", "sub"])('S3.4 "throw": %s is asked about what it hands over, and fails', async (name) => {
    const saver = open(fresh());
    const asked: unknown[] = [];
    const runner = handsOver(saver, { [name]: { validate: judge(asked), onFailure: "throw" } });
    expect(await refusal(runner.invoke({ log: [] }, { threadId: "t" }))).toMatchObject({
      code: "VALIDATION_FAILED",
      data: { nodeName: name.slice(-5) === "inner" ? "inner" : "sub" },
    });
    expect(asked).toEqual(["bad"]);
    expect(await actions(saver)).toEqual(
      name === "sub" ? ["inner#1 handoff -", "sub#1 error failed"] : ["inner#1 error failed", "sub#1 error -"],
    );
    const stopped = (await saver.turns.list("t")).filter((turn) => turn.validation !== undefined);
    expect(await Promise.all(stopped.map((turn) => handedOn(saver, turn)))).toEqual([{ log: ["bad"] }]);
    expect(await runner.resume({ threadId: "t" })).toEqual({ log: ["good", "next"] });
  });

  test('S3.4 "record": it is told, and goes through', async () => {
    const saver = open(fresh());
    const runner = handsOver(saver, { inner: { validate: judge() } });
    expect(await runner.invoke({ log: [] }, { threadId: "t" })).toEqual({ log: ["bad", "next"] });
    expect(await actions(saver)).toEqual(["inner#1 handoff failed", "sub#1 ok -", "next#1 ok -"]);
  });

  test('S3.4 "rollback": the runner goes back, and what is handed over then counts', async () => {
    const saver = open(fresh());
    const runner = handsOver(saver, { inner: { validate: judge(), onFailure: "rollback" } });
    expect(await runner.invoke({ log: [] }, { threadId: "t" })).toEqual({ log: ["good", "next"] });
  });
});

describe("an error handler past a doubt", () => {
  const back = () => new Command({ goto: "act", update: { log: ["handled"] } });
  const handled = (saver: TurnSaver, act: () => unknown, errorHandler: () => unknown = back) =>
    attached(saver, line({ act }, { act: { errorHandler, ends: ["act"] } }));

  test.each([
    ["fails with it", (error: unknown) => error],
    ["fails with something else", () => new Error("something else")],
  ])("S2.9 it is not called for a node that %s, and a resume finds the node again", async (_, thrown) => {
    const path = fresh();
    const deeds = new Deeds();
    let calls = 0;
    const act = () =>
      risky(deeds).then(
        () => ({ log: ["sent"] }),
        (error: unknown) => Promise.reject(thrown(error) as Error),
      );
    const handler = () => (calls++, back());
    const saver = open(path);
    const graph = handled(saver, act, handler);
    expect(await refusal(graph.invoke({ log: [] }, thread()))).toMatchObject({ code: "EFFECT_IN_DOUBT" });
    expect(await refusal(graph.invoke(null, thread()))).toMatchObject({ code: "EFFECT_IN_DOUBT" });
    expect(deeds.lines()).toEqual(["mail"]);
    expect(await saver.turns.inFlight("t")).toEqual([]);
    saver.close();

    const later = open(path);
    const again = handled(later, act, handler);
    expect(await refusal(again.invoke(null, thread()))).toMatchObject({ code: "EFFECT_IN_DOUBT" });
    const [doubt] = await later.effects.list("t");
    await later.effects.resolve(doubt?.id ?? "", { outcome: "done", result: "sent" });
    expect(await again.invoke(null, thread())).toEqual({ log: ["sent"] });
    expect([calls, deeds.lines()]).toEqual([0, ["mail"]]);
  });

  test("S2.9 nor the handler of the node around, nor of a subgraph's nodes, nor the default one", async () => {
    const saver = open(fresh());
    const deeds = new Deeds();
    let calls = 0;
    const errorHandler = () => (calls++, { log: ["handled"] });
    const sub = line({ act: () => risky(deeds).then(() => ({ log: ["sent"] })) }, { act: { errorHandler } }).compile();
    const builder = line({ sub: sub as never });
    builder.setNodeDefaults({ errorHandler: errorHandler as never });
    const graph = attached(saver, builder);
    expect(await refusal(graph.invoke({ log: [] }, thread()))).toMatchObject({ code: "EFFECT_IN_DOUBT" });
    expect([calls, deeds.lines()]).toEqual([0, ["mail"]]);
  });

  test("S2.9 nor the handler of a node that a Send called", async () => {
    const saver = open(fresh());
    const deeds = new Deeds();
    let calls = 0;
    const builder = line({ first: () => ({ log: ["first"] }) })
      .addNode("act", () => risky(deeds).then(() => ({ log: ["sent"] })), { errorHandler: () => (calls++, { log: ["handled"] }) })
      .addConditionalEdges("first", () => [new Send("act", {})], ["act"] as never);
    expect(await refusal(attached(saver, builder as never).invoke({ log: [] }, thread()))).toMatchObject({
      code: "EFFECT_IN_DOUBT",
    });
    expect([calls, deeds.lines()]).toEqual([0, ["mail"]]);
  });

  test("S2.9 it is called for any other failure, also after a doubt that a retry has removed", async () => {
    const saver = open(fresh());
    let attempts = 0;
    const act = async () => {
      attempts += 1;
      await effect("mail", () => Promise.reject(new Error("timeout")), {
        onError: "unknown",
        probe: () => "found",
      });
      throw new Error("for another reason");
    };
    const retryPolicy = { maxAttempts: 2, initialInterval: 1, jitter: false, retryOn: () => true, logWarning: false };
    const errorHandler = () => ({ log: ["handled"] });
    const graph = attached(saver, line({ act }, { act: { errorHandler, retryPolicy } }));
    expect(await graph.invoke({ log: [] }, thread())).toEqual({ log: ["handled"] });
    expect(attempts).toBe(2);
  });
});

describe("an error handler past a save that failed", () => {
  // Side by side with a node that isn't started, LangGraph hands a finished node's abort to its handler, with any saver.
  test.each([
    ["continue", ["b", "c"]],
    ["throw", ["b"]],
  ] as const)(
    "S1.9 whichever commit fails once, the run fails or does everything, no handler is called, and a resume does the rest (onTurnError: %s)",
    async (onTurnError, middle) => {
      for (let at = 1, commits = at; at <= commits; at += 1) {
        commits = 0;
        setFailpointHandler((point) => {
          if (point.endsWith(".before") && ++commits === at) throw new Error("the disk is full");
        });
        let calls = 0;
        const errorHandler = () => (calls++, { log: ["handled"] });
        const saver = open(fresh(), { onTurnError });
        const said = (name: string) => () => ({ log: [name] });
        const builder: any = new StateGraph(State).addNode("a", said("a")).addNode("d", said("d")).addEdge(START, "a");
        for (const name of middle) builder.addNode(name, said(name), name === "b" ? { errorHandler } : {}).addEdge("a", name);
        builder.addEdge(middle, "d");
        const graph = saver.attach(builder.compile({ checkpointer: saver }));
        const run = async (): Promise<unknown> => {
          const { metadata } = await graph.getState(thread());
          return graph.invoke(metadata === undefined ? { log: ["in"] } : null, thread()).catch(run);
        };
        const result = await run();
        expect({ at, calls, result }).toEqual({ at, calls: 0, result: { log: ["in", "a", ...middle, "d"] } });
        setFailpointHandler(undefined);
        saver.close();
      }
    },
  );
});
