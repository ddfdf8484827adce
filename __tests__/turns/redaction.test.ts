import { randomBytes } from "node:crypto";
import { AIMessage, type BaseMessage, HumanMessage } from "@langchain/core/messages";
import {
  Annotation,
  Command,
  entrypoint,
  interrupt,
  MessagesAnnotation,
  Send,
  START,
  StateGraph,
  task,
  UntrackedValueChannel,
} from "@langchain/langgraph";
import type { SerializerProtocol } from "@langchain/langgraph-checkpoint";
import Database from "better-sqlite3";
import fc from "fast-check";
import { GraphRunner, type Turn, type TurnSaver, type TurnSaverOptions, type TurnToRedact } from "langgraph-checkpoint-turns";
import { openPersister } from "../support/open-persister";
import { everythingIn } from "../support/s1-tools";
import { tempFile } from "../support/temp";
import { openSaver } from "../support/open-saver";

const SECRET = "4111-1111-1111-1111";
const quiet = { debug() {}, info() {}, warn() {}, error() {} };
const State = Annotation.Root({
  card: Annotation<string>(),
  seen: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
});
const config = { configurable: { thread_id: "t", task_id: "task-1", graph_id: "shop" } };
const open: { close(): void }[] = [];

afterEach(() => {
  for (const one of open.splice(0)) one.close();
});

class JsonSerde implements SerializerProtocol {
  async dumpsTyped(value: unknown): Promise<[string, Uint8Array]> {
    return ["json", new TextEncoder().encode(JSON.stringify(value))];
  }

  async loadsTyped(_type: string, data: Uint8Array | string): Promise<unknown> {
    return JSON.parse(typeof data === "string" ? data : new TextDecoder().decode(data)) as unknown;
  }
}

interface World {
  saver: TurnSaver;
  file: string;
  /** What was logged as an error, in words. */
  errors: string[];
  failures: { nodeName: string; turnType: string; error: unknown }[];
}

function worldOf(options: TurnSaverOptions, file = tempFile()): World {
  const errors: string[] = [];
  const note = (data: object, message: string) => void errors.push(`${message} ${JSON.stringify(data)}`);
  const saver = openSaver(file, { logger: { ...quiet, error: note }, ...options });
  const failures: World["failures"] = [];
  saver.events.on("turn_failed", (failure) => failures.push(failure));
  open.push(saver);
  return { saver, file, errors, failures };
}

/** What the turns of the thread hold, everything that they refer to included. */
async function contents(saver: TurnSaver, threadId = "t"): Promise<unknown[]> {
  const states: unknown[] = [];
  for (const turn of await saver.turns.list(threadId)) {
    states.push(await saver.turns.state(turn).catch((error: { code: string }) => error.code));
  }
  return states;
}

function rowsOf(file: string): { state: string; format: string; type: string; name: string }[] {
  const db = new Database(file, { readonly: true });
  const rows = db
    .prepare(
      "SELECT serialized_state AS state, state_format AS format, turn_type AS type, node_name AS name FROM langgraph_checkpoints ORDER BY seq",
    )
    .all();
  db.close();
  return rows as { state: string; format: string; type: string; name: string }[];
}

function shop(saver: TurnSaver, attached = true) {
  const graph = new StateGraph(State)
    .addNode("charge", ({ card }) => ({ seen: [`charged ${card}`] }))
    .addNode("mail", () => ({ seen: ["mailed"] }))
    .addEdge(START, "charge")
    .addEdge("charge", "mail")
    .compile({ checkpointer: saver });
  return attached ? saver.attach(graph) : graph;
}

const masked = (value: unknown): unknown =>
  typeof value === "string" ? value.replaceAll(SECRET, "****") : Array.isArray(value) ? value.map(masked) : value;
const mask = ({ state }: TurnToRedact) => Object.fromEntries(Object.entries(state).map(([key, value]) => [key, masked(value)]));

describe("S4.6 redact", () => {
  test("S4.6 is asked about every turn, and what it returns is what the row holds", async () => {
    const asked: TurnToRedact[] = [];
    const { saver, file } = worldOf({
      redact: (turn) => {
        asked.push(turn);
        return mask(turn);
      },
    });
    expect(await shop(saver).invoke({ card: SECRET }, config)).toEqual({ card: SECRET, seen: [`charged ${SECRET}`, "mailed"] });
    expect(asked.map(({ nodeName, turnType, status, state }) => [nodeName, turnType, status, state])).toEqual([
      ["charge", "Thought", undefined, { card: SECRET, seen: [] }],
      ["charge", "Action", "ok", { seen: [`charged ${SECRET}`] }],
      ["mail", "Thought", undefined, { card: SECRET, seen: [`charged ${SECRET}`] }],
      ["mail", "Action", "ok", { seen: ["mailed"] }],
    ]);
    const turns = await saver.turns.list("t");
    expect(
      asked.map(({ threadId, taskId, graphId, nodeNs, nodeTaskId }) => [threadId, taskId, graphId, nodeNs, nodeTaskId]),
    ).toEqual(turns.map((turn) => ["t", "task-1", "shop", turn.nodeNs, turn.nodeTaskId]));
    expect(await contents(saver)).toEqual([
      { card: "****", seen: [] },
      { seen: ["charged ****"] },
      { card: "****", seen: ["charged ****"] },
      { seen: ["mailed"] },
    ]);
    expect(rowsOf(file).map(({ format }) => format)).toEqual(["state", "update", "state", "update"]);
    expect(JSON.stringify(rowsOf(file))).not.toContain(SECRET);
    const persister = openPersister(file, new Database(file));
    expect((await persister.loadForTask("task-1")).map(({ state }) => state)).toEqual(await contents(saver));
  });

  test("S4.6 undefined keeps nothing: the turn is there, its state is TURN_NOT_KEPT", async () => {
    const { saver, file } = worldOf({ redact: ({ turnType, state }) => (turnType === "Thought" ? undefined : state) });
    await shop(saver).invoke({ card: "c" }, config);
    expect(await contents(saver)).toEqual(["TURN_NOT_KEPT", { seen: ["charged c"] }, "TURN_NOT_KEPT", { seen: ["mailed"] }]);
    expect(rowsOf(file).map(({ format, state }) => [format, state])).toContainEqual(["none", "{}"]);
    expect(await openPersister(file, new Database(file)).loadLatest("shop")).not.toBeUndefined();
    const [thought] = await saver.turns.list("t");
    await expect(saver.turns.state(thought!)).rejects.toMatchObject({ name: "TurnNotKeptError", data: { id: thought!.id } });
  });

  test("S4.6 what it does to the state does not reach the graph, nor does the graph's later work reach the row", async () => {
    const { saver } = worldOf({
      redact: ({ state }) => {
        if (Array.isArray(state["messages"])) (state["messages"][0] as BaseMessage).content = "redacted";
        state["extra"] = true;
        return state;
      },
    });
    const graph = saver.attach(
      new StateGraph(MessagesAnnotation)
        .addNode("chat", ({ messages }) => {
          expect(messages[0]!.content).toBe(SECRET);
          messages[0]!.content = "changed by the node";
          return { messages: [new AIMessage(SECRET)] };
        })
        .addEdge(START, "chat")
        .compile({ checkpointer: saver }),
    );
    const result = await graph.invoke({ messages: [new HumanMessage(SECRET)] }, config);
    expect(result.messages.map(({ content }) => content)).toEqual(["changed by the node", SECRET]);
    const texts = (await contents(saver)).map((state) => {
      const { messages, extra } = state as { messages: BaseMessage[]; extra: boolean };
      expect(extra).toBe(true);
      return messages.map(({ content }) => content);
    });
    expect(texts).toEqual([["redacted"], ["redacted"]]);
  });

  test("S4.6 errors, interrupts, Sends, functional tasks and answers that are no objects go through it", async () => {
    const asked: TurnToRedact[] = [];
    const { saver, file } = worldOf({
      redact: (turn) => {
        asked.push(turn);
        return undefined;
      },
    });
    const fan = saver.attach(
      new StateGraph(State)
        .addNode("plan", () => ({}))
        .addNode("work", ({ card }) => {
          if (card === "ask") interrupt({ question: SECRET });
          throw new Error(`declined ${card}`);
        })
        .addEdge(START, "plan")
        .addConditionalEdges("plan", ({ card }) => [new Send("work", { card })], ["work"])
        .compile({ checkpointer: saver }),
    );
    await expect(fan.invoke({ card: SECRET }, { configurable: { thread_id: "error" } })).rejects.toThrow("declined");
    await fan.invoke({ card: "ask" }, { configurable: { thread_id: "ask" } });
    const double = task("double", async (text: string) => text + text);
    const flow = saver.attach(entrypoint({ name: "flow", checkpointer: saver }, async (text: string) => double(text)));
    await flow.invoke(SECRET, { configurable: { thread_id: "flow" } });
    const statesOf = (nodeName: string): unknown[] =>
      asked.filter((turn) => turn.nodeName === nodeName).map(({ turnType, status, state }) => [turnType, status, state]);
    expect(statesOf("work")).toEqual([
      ["Thought", undefined, { card: SECRET }],
      // Its stack has no message, which would escape a function that takes secrets out of messages.
      [
        ...["Action", "error"],
        { error: { name: "Error", message: `declined ${SECRET}`, stack: expect.stringMatching(/^ {4}at [^]*redaction\.test/) } },
      ],
      ["Thought", undefined, { card: "ask" }],
      ["Action", "interrupted", { interrupts: [expect.objectContaining({ value: { question: SECRET } })] }],
    ]);
    expect(statesOf("double").at(-1)).toEqual(["Action", "ok", { output: SECRET + SECRET }]);
    expect(rowsOf(file).map(({ state }) => state)).toEqual(rowsOf(file).map(() => "{}"));
  });

  test("S4.6 a saver that is not attached: planned Thoughts and Actions made of writes obey too", async () => {
    const { saver, file } = worldOf({ redact: mask });
    await shop(saver, false).invoke({ card: SECRET }, config);
    expect(await contents(saver)).toEqual([
      { card: "****", seen: [] },
      { seen: ["charged ****"] },
      { card: "****", seen: ["charged ****"] },
      { seen: ["mailed"] },
    ]);
    expect(JSON.stringify(rowsOf(file))).not.toContain(SECRET);
  });

  test("S4.6 what the codec cannot save is not shown to it, and takes nothing else along", async () => {
    const { saver, errors } = worldOf({ redact: ({ state }) => state });
    const call = task("call", async (request: { url: string }, send: () => string) => send() + request.url);
    const flow = saver.attach(
      entrypoint({ name: "flow", checkpointer: saver }, async (url: string) => call({ url }, () => "sent to ")),
    );
    expect(await flow.invoke("u", config)).toBe("sent to u");
    const states = await contents(saver);
    expect(states).toContainEqual({ output: "sent to u" });
    expect(errors).toEqual([]);
  });

  test("S4.6 with a serde of the user's it sees the values, not what the serde makes of them", async () => {
    const { saver } = worldOf({ redact: mask, serde: new JsonSerde() });
    await shop(saver).invoke({ card: SECRET }, config);
    expect(await contents(saver)).toEqual([
      { card: "****", seen: [] },
      { seen: ["charged ****"] },
      { card: "****", seen: ["charged ****"] },
      { seen: ["mailed"] },
    ]);
    const unattached = worldOf({ redact: mask, serde: new JsonSerde() });
    await shop(unattached.saver, false).invoke({ card: SECRET }, config);
    expect(new Set(await contents(unattached.saver))).toEqual(new Set(["TURN_NOT_KEPT"]));
  });

  test("S4.6 with keys that take time, the row holds what was there when the turn began", async () => {
    const provider = async () => {
      await new Promise((resolve) => setTimeout(resolve, 20));
      return { keys: { k: randomBytes(32) }, current: "k" };
    };
    const { saver, errors } = worldOf({ redact: mask, encryption: { provider } });
    await shop(saver).invoke({ card: SECRET }, config);
    expect((await contents(saver))[0]).toEqual({ card: "****", seen: [] });
    expect(errors).toEqual([]);
  });
});

describe("S4.6 while another process holds the lock", () => {
  test.each([true, false])("S4.6 the row holds what was there when it was to be saved (attached: %s)", async (attached) => {
    const { saver, file } = worldOf({ redact: mask });
    const other = new Database(file);
    open.push(other);
    const note = { text: SECRET };
    const graph = new StateGraph(Annotation.Root({ note: Annotation<{ text: string }>() }))
      .addNode("write", () => {
        other.exec("BEGIN IMMEDIATE");
        // What the node does behind its return, while its save still waits for the lock.
        setTimeout(() => {
          note.text = "changed later";
          other.exec("COMMIT");
        }, 30);
        return { note };
      })
      .addEdge(START, "write")
      .compile({ checkpointer: saver });
    if (attached) saver.attach(graph);
    await graph.invoke({ note: { text: "first" } }, config);
    expect(note.text).toBe("changed later");
    expect((await contents(saver)).at(-1)).toEqual({ note: { text: SECRET } });
  });
});

describe("S4.6 a redact that fails fails closed", () => {
  const leaks: [string, (turn: TurnToRedact) => unknown][] = [
    [
      "throws, quoting the state",
      ({ state }) => {
        throw new Error(JSON.stringify(state));
      },
    ],
    ["returns a promise", async ({ state }) => state],
    [
      "returns a promise that rejects",
      async ({ state }) => {
        throw new Error(JSON.stringify(state));
      },
    ],
    ["returns a text", ({ state }) => JSON.stringify(state)],
    ["returns a list", ({ state }) => [state]],
    ["returns null", () => null],
    ["returns what cannot be saved", ({ state }) => ({ ...state, call: () => state })],
    ["returns a message", () => new AIMessage(SECRET)],
    [
      "returns what throws when it is read",
      () => ({
        get card() {
          throw new Error(SECRET);
        },
      }),
    ],
  ];
  test.each(leaks)(
    "S4.6 one that %s: no content, a log line and an event without it, and the graph continues",
    async (_, redact) => {
      for (const attached of [true, false]) {
        const { saver, file, errors, failures } = worldOf({ redact: redact as never, onTurnError: "throw" });
        const result = await shop(saver, attached).invoke({ card: SECRET }, config);
        expect(result).toEqual({ card: SECRET, seen: [`charged ${SECRET}`, "mailed"] });
        await new Promise(setImmediate);
        expect((await saver.turns.list("t")).map(({ nodeName, turnType, durable }) => [nodeName, turnType, durable])).toEqual([
          ["charge", "Thought", false],
          ["charge", "Action", true],
          ["mail", "Thought", false],
          ["mail", "Action", true],
        ]);
        expect(await contents(saver)).toEqual(Array(4).fill("TURN_NOT_KEPT"));
        expect(JSON.stringify(rowsOf(file))).not.toContain(SECRET);
        expect(errors).toHaveLength(4);
        expect(errors.join()).not.toContain(SECRET);
        expect(failures.map(({ error }) => (error as { code: string }).code)).toEqual(Array(4).fill("REDACTION_FAILED"));
        expect(failures.map(({ error }) => String(error)).join()).not.toContain(SECRET);
        for (const { error } of failures) {
          expect(String(error)).toMatch(/^\w+: The option "redact" (threw|returned).+\. The turn was saved without content/);
        }
      }
    },
  );

  test("S4.6 with a serde that refuses what redact returned, too", async () => {
    class Picky extends JsonSerde {
      override async dumpsTyped(value: unknown): Promise<[string, Uint8Array]> {
        if ((value as { refused?: boolean } | null)?.refused === true) throw new Error("refused");
        return super.dumpsTyped(value);
      }
    }
    const { saver, failures } = worldOf({ redact: () => ({ refused: true }), serde: new Picky() });
    await shop(saver).invoke({ card: SECRET }, config);
    expect(await contents(saver)).toEqual(Array(4).fill("TURN_NOT_KEPT"));
    expect(failures.map(({ error }) => (error as { code: string }).code)).toEqual(Array(4).fill("REDACTION_FAILED"));
  });
});

describe("S4.6 turns", () => {
  test.each([true, false])(
    'S4.6 "metadata": all that is known of the turns but their content (attached: %s)',
    async (attached) => {
      const asked = jest.fn();
      const { saver, file } = worldOf({ turns: "metadata", redact: asked });
      await shop(saver, attached).invoke({ card: SECRET }, config);
      const line = (turn: Turn): string => `${turn.turnType} ${turn.nodeName} ${turn.status ?? ""} ${turn.durable}`;
      expect((await saver.turns.list("t")).map(line)).toEqual([
        "Thought charge  false",
        "Action charge ok true",
        "Thought mail  false",
        "Action mail ok true",
      ]);
      expect(rowsOf(file).map(({ state, format }) => [state, format])).toEqual(Array(4).fill(["{}", "none"]));
      expect(await contents(saver)).toEqual(Array(4).fill("TURN_NOT_KEPT"));
      expect(asked).not.toHaveBeenCalled();
    },
  );

  test('S4.6 "metadata": errors leave their status; what a crash interrupted is known, and resumes', async () => {
    const { saver, file } = worldOf({ turns: "metadata" });
    let broken = true;
    const runner = new GraphRunner(
      new StateGraph(State)
        .addNode("work", ({ card }) => {
          if (broken) throw new Error(`declined ${card}`);
          return { seen: ["done"] };
        })
        .addEdge(START, "work")
        .compile({ checkpointer: saver }),
    );
    await expect(runner.invoke({ card: SECRET }, { threadId: "t" })).rejects.toThrow("declined");
    expect((await saver.turns.list("t")).map(({ status }) => status)).toEqual([undefined, "error"]);
    broken = false;
    expect(await runner.resume({ threadId: "t" })).toEqual({ card: SECRET, seen: ["done"] });
    expect(JSON.stringify(rowsOf(file))).not.toContain(SECRET);
    await saver.rewind({ threadId: "t", toTask: (await saver.turns.tasks("t"))[0]!.taskId });
    await saver.copyThread("t", "copy");
    expect(await contents(saver, "copy")).toEqual(Array(4).fill("TURN_NOT_KEPT"));
  });

  test.each([true, false])(
    'S4.6 "off": no row, no event; it runs, resumes, and is known as running (attached: %s)',
    async (attached) => {
      const debugged: string[] = [];
      const logger = { ...quiet, debug: (_: object, message: string) => void debugged.push(message) };
      const { saver, file } = worldOf({ turns: "off", logger });
      expect(debugged).toEqual([expect.stringContaining('turns: "off"')]);
      const told = jest.fn();
      saver.events.on("turn", told).on("turn_failed", told);
      let running: boolean | undefined;
      const graph = new StateGraph(State)
        .addNode("ask", async () => {
          running = await saver.turns.isRunning("t");
          return { seen: [String(interrupt("sure?"))] };
        })
        .addEdge(START, "ask")
        .compile({ checkpointer: saver });
      if (attached) saver.attach(graph);
      await graph.invoke({ card: SECRET }, config);
      expect(running).toBe(attached);
      expect(await graph.invoke(new Command({ resume: "yes" }), config)).toEqual({ card: SECRET, seen: ["yes"] });
      expect(await saver.turns.isRunning("t")).toBe(false);
      expect(rowsOf(file)).toEqual([]);
      expect(told).not.toHaveBeenCalled();
      expect(await saver.turns.inFlight("t")).toEqual([]);
      expect((await saver.turns.tokenUsage("t")).byNode).toEqual([]);
      expect((await saver.turns.tasks("t")).map(({ taskId }) => taskId)).toEqual(["task-1"]);
    },
  );

  test('S4.6 "off" with durability "exit": runs that name no task are one, as docs/redaction.md says', async () => {
    const tasksWith = async (turns: "off" | "metadata"): Promise<number> => {
      const { saver } = worldOf({ turns });
      const graph = shop(saver);
      for (const card of ["one", "two"]) {
        await graph.invoke({ card }, { configurable: { thread_id: "t" }, durability: "exit" });
      }
      return (await saver.turns.tasks("t")).length;
    };
    expect(await tasksWith("metadata")).toBe(2);
    expect(await tasksWith("off")).toBe(1);
  });

  test("S4.6 turns saved earlier keep what they hold", async () => {
    const { saver, file } = worldOf({});
    await shop(saver).invoke({ card: "c" }, config);
    const full = await contents(saver);
    saver.close();
    const later = worldOf({ turns: "metadata" }, file);
    await shop(later.saver).invoke({ card: SECRET }, config);
    expect(await contents(later.saver)).toEqual([...full, ...Array(4).fill("TURN_NOT_KEPT")]);
  });

  test.each([
    ["redact", { redact: "mask" }],
    ["turns", { turns: "none" }],
  ])("S4.6 a bad option %s is refused by name", (option, options) => {
    expect(() => openSaver(":memory:", options as never)).toThrow(
      expect.objectContaining({ code: "INVALID_OPTION", data: { option } }),
    );
  });
});

describe("S4.6 nothing leads around it", () => {
  test("S4.6 no matter what the state is and which keys are left out, no turn gives them", async () => {
    const key = fc.constantFrom("a", "b", "c", "__proto__x", "constructor");
    const state = fc.dictionary(
      key,
      fc.oneof(fc.string(), fc.integer(), fc.array(fc.string({ maxLength: 300 }), { maxLength: 40 })),
    );
    let allowed: readonly string[] = [];
    const { saver, failures } = worldOf({
      redact: (turn) => Object.fromEntries(Object.entries(turn.state["data"] ?? {}).filter(([name]) => allowed.includes(name))),
    });
    const graph = saver.attach(
      new StateGraph(Annotation.Root({ data: Annotation<Record<string, unknown>>() }))
        .addNode("same", ({ data }) => ({ data: { ...data } }))
        .addEdge(START, "same")
        .compile({ checkpointer: saver }),
    );
    let runs = 0;
    await fc.assert(
      fc.asyncProperty(state, fc.subarray(["a", "b", "c"]), async (data, keep) => {
        allowed = keep;
        const threadId = `t${(runs += 1)}`;
        await graph.invoke({ data }, { configurable: { thread_id: threadId } });
        const expected = Object.fromEntries(Object.entries(data).filter(([name]) => keep.includes(name)));
        expect(await contents(saver, threadId)).toEqual([expected, expected]);
      }),
      { numRuns: 25 },
    );
    expect(failures).toEqual([]);
  });

  test("S4.6 the secret is nowhere in the file but in LangGraph's own checkpoints and writes", async () => {
    const { saver, file } = worldOf({ redact: () => ({ redacted: true }) });
    await shop(saver).invoke({ card: SECRET }, config);
    saver.close();
    const db = new Database(file);
    db.exec("DELETE FROM langgraph_snapshots; DELETE FROM langgraph_writes; DELETE FROM langgraph_chunks; VACUUM");
    db.pragma("wal_checkpoint(TRUNCATE)");
    expect(db.prepare("SELECT count(*) FROM langgraph_checkpoints").pluck().get()).toBe(4);
    db.close();
    expect(everythingIn(file).includes(SECRET)).toBe(false);
  });
});

describe("S4.6 values of untracked channels, which LangGraph doesn't save,", () => {
  const Untracked = Annotation.Root({
    seen: State.spec.seen,
    client: (() => new UntrackedValueChannel<{ card: string; call?: () => string }>()) as never,
  });
  const client = { card: SECRET, call: () => "called" };
  // LangGraph saves what a Send carries and what a graph is called with, so no function is in there.
  const plain = { card: SECRET };

  test("S4.6 are in no turn: of a node, of a Send, of a graph in a node, or in a Command; and every turn is saved", async () => {
    const { saver, failures } = worldOf({});
    const inner = new StateGraph(Untracked)
      .addNode("in", () => ({ seen: ["in"], client }) as object)
      .addNode("up", () => new Command({ graph: Command.PARENT, update: { seen: ["up"], client } as never, goto: "last" }))
      .addEdge(START, "in")
      .addEdge("in", "up")
      .compile();
    const graph = saver.attach(
      new StateGraph(Untracked)
        .addNode("opens", () => ({ seen: ["opens"], client }) as object)
        .addNode(
          "sends",
          () => new Command({ update: { client: plain } as never, goto: [new Send("each", { seen: [], client: plain })] }),
          {
            ends: ["each"],
          },
        )
        .addNode("each", (state: any) => ({ seen: [typeof state.client.card] }))
        .addNode("inner", inner, { ends: ["last"] })
        .addNode(
          "last",
          (state: any) =>
            [
              new Command({
                update: [
                  ["seen", [state.client.call()]],
                  ["client", client],
                ],
              }),
            ] as never,
        )
        .addEdge(START, "opens")
        .addEdge("opens", "sends")
        .addEdge("each", "inner")
        .compile({ checkpointer: saver }),
    );
    const { seen } = await graph.invoke({ seen: ["first"] }, config);
    expect(seen.slice(-3)).toEqual(["string", "up", "called"]);
    const turns = await contents(saver);
    expect(turns).toHaveLength(14);
    expect(JSON.stringify(turns)).not.toContain(SECRET);
    expect(turns.filter((turn) => typeof turn === "string")).toEqual([]);
    expect(failures).toEqual([]);
  });

  test("S4.6 are left out of results alone: an error and a question are kept under any name", async () => {
    const { saver } = worldOf({});
    const names = Annotation.Root({
      seen: State.spec.seen,
      error: (() => new UntrackedValueChannel<string>()) as never,
      interrupts: (() => new UntrackedValueChannel<string>()) as never,
    });
    const graph = saver.attach(
      new StateGraph(names)
        .addNode("asks", () => ({ seen: [interrupt("May I?")] }))
        .addNode("fails", () => Promise.reject(new Error("not today")))
        .addEdge(START, "asks")
        .addEdge("asks", "fails")
        .compile({ checkpointer: saver }),
    );
    await graph.invoke({ seen: [] }, config);
    await expect(graph.invoke(new Command({ resume: "yes" }), config)).rejects.toThrow("not today");
    const turns = JSON.stringify(await contents(saver));
    expect(turns).toContain("May I?");
    expect(turns).toContain("not today");
  });
});
