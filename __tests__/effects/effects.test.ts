import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { RunnableLambda } from "@langchain/core/runnables";
import { tool } from "@langchain/core/tools";
import { Command, entrypoint, interrupt, MessagesAnnotation, Send, START, StateGraph, task } from "@langchain/langgraph";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { MemorySaver } from "@langchain/langgraph-checkpoint";
import Database from "better-sqlite3";
import { effect, type EffectOptions, type TurnsError } from "langgraph-checkpoint-turns";
import { z } from "zod";
import {
  attached,
  closeAll,
  Deeds,
  fresh,
  line,
  Log,
  open,
  quietLogger,
  refusal,
  thread,
  told,
  type Warned,
} from "../support/eff-world";
import { everythingIn } from "../support/s1-tools";

const empty = { log: [] as string[] };
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const retryPolicy = { maxAttempts: 4, initialInterval: 1, jitter: false, retryOn: () => true, logWarning: false };
afterEach(closeAll);

/** A node that does one effect and then fails as often as it is told. */
function oneEffect<T>(
  fn: (key: string) => T | Promise<T>,
  options: EffectOptions<T> = {},
  { failures = 1, path = fresh() } = {},
) {
  const saver = open(path);
  const results: T[] = [];
  let left = failures;
  const a = async () => {
    results.push(await effect("act", fn, options));
    if (left-- > 0) throw new Error("node failed");
    return { log: ["ran"] };
  };
  const graph = attached(saver, line({ a }));
  return { saver, graph, results, path, start: () => graph.invoke(empty, thread()), resume: () => graph.invoke(null, thread()) };
}

/** Leaves an effect in doubt, as a process does that dies in it: its function fails with what tells nothing. */
async function inDoubt(path: string, options: EffectOptions<string> = {}, name = "act"): Promise<void> {
  const saver = open(path);
  const a = () =>
    effect(name, () => Promise.reject<string>(new Error("timeout")), { ...options, onError: "unknown" }).then((log) => ({
      log: [log],
    }));
  expect(await refusal(attached(saver, line({ a })).invoke(empty, thread()))).toMatchObject({ code: "EFFECT_IN_DOUBT" });
}

function resumed(path: string, fn: (key: string) => string | Promise<string>, options: EffectOptions<string> = {}) {
  const saver = open(path);
  const a = async () => ({ log: [await effect("act", fn, options)] });
  return { saver, resume: () => attached(saver, line({ a })).invoke(null, thread()) };
}

describe("S3.5 a saver that is closed in the middle of an effect", () => {
  test.each(["done", "failed"] as const)(
    "S3.5 says so where the effect is %s, and the next resume has it in doubt",
    async (how) => {
      const path = fresh();
      const logged: unknown[] = [];
      const logger = { ...quietLogger(), error: (details: object) => void logged.push((details as { error?: unknown }).error) };
      const saver = open(path, { logger });
      let finish: (() => void) | undefined;
      const send = async () => {
        await new Promise<void>((resolve) => (finish = resolve));
        if (how === "failed") throw new Error("mail down");
        return "sent";
      };
      const nodes = { a: async () => ({ log: [await effect("send", send)] }) };
      const running = refusal(attached(saver, line(nodes)).invoke(empty, thread()));
      while (finish === undefined) await pause(1);
      await (saver.close() as unknown);
      finish();
      const caught = await running;
      // The node sees the effect's own error, and the log has the other one.
      const words = how === "done" ? caught.message : logged.find((error) => String(error).startsWith("EffectNotRecorded"));
      if (how === "failed") expect(caught.message).toBe("mail down");
      expect(words).toMatch(
        how === "done" ? /is done, but its outcome could not be saved;/ : /has failed, but its outcome could not be saved;/,
      );
      expect(words).toMatch(
        / The saver was closed while it ran, so it is in doubt\. Open a new saver, settle it with saver\.effects/,
      );
      const next = open(path);
      expect(await refusal(attached(next, line(nodes)).invoke(null, thread()))).toMatchObject({ code: "EFFECT_IN_DOUBT" });
    },
  );
});

describe("an effect that is done", () => {
  test("S2.9 its intent is committed before its function, its result after, and a re-run gets the result without calling it", async () => {
    let seen = "";
    const path = fresh();
    const keys: string[] = [];
    const events: string[] = [];
    const { saver, start, resume, results } = oneEffect(
      (key) => {
        const reader = new Database(path, { readonly: true });
        seen = (reader.prepare("SELECT status FROM langgraph_effects").get() as { status: string }).status;
        reader.close();
        keys.push(key);
        return { at: new Date(5) };
      },
      { input: { cents: 5n } },
      { path },
    );
    saver.events.on("effect", ({ what }) => void events.push(what));
    expect(await refusal(start())).toMatchObject({ message: "node failed" });
    expect(seen).toBe("intent");
    await resume();
    expect(results).toEqual([{ at: new Date(5) }, { at: new Date(5) }]);
    expect(keys).toHaveLength(1);
    expect(events).toEqual(["begun", "done", "replayed"]);
    const [listed] = await saver.effects.list("t");
    expect(listed).toMatchObject({
      name: "act",
      label: "#0",
      status: "done",
      tries: 1,
      key: keys[0],
      nodeName: "a",
      inherited: false,
    });
    expect(await saver.effects.get(listed!.id)).toMatchObject({
      input: { cents: 5n },
      result: { at: new Date(5) },
      error: undefined,
    });
  });

  const values: [string, unknown][] = [
    ["undefined", undefined],
    ["null", null],
    ["a BigInt", 12n],
    ["NaN", NaN],
    ["a Map with a Set", new Map([["a", new Set([1])]])],
    ["bytes", new Uint8Array([1, 200, 255])],
    ["a Date", new Date(1)],
    ["a URL", new URL("https://example.org/")],
    ["an Error", new TypeError("x")],
    ["a message", new HumanMessage("hello")],
    ["an empty object", {}],
    ["what looks like an outcome", { result: 1, error: 2, unsaved: "x" }],
    ["5 MB", { text: "abcde".repeat(1_000_000) }],
  ];
  test.each(values)("a result is restored as what it was: %s", async (_, value) => {
    const { start, resume, results } = oneEffect(() => value);
    await refusal(start());
    await resume();
    expect(results).toHaveLength(2);
    expect(results[1]).toEqual(value);
  });

  test("a result that cannot be saved is a named error, and the side effect is not done again", async () => {
    const deeds = new Deeds();
    const { saver, start, resume } = oneEffect(() => {
      deeds.do("act");
      return { socket: () => undefined };
    });
    expect(await refusal(start())).toMatchObject({
      code: "UNSERIALIZABLE_VALUE",
      message: expect.stringContaining("act") as string,
    });
    expect(await refusal(resume())).toMatchObject({ code: "UNSERIALIZABLE_VALUE" });
    expect(deeds.lines()).toEqual(["act"]);
    expect(await saver.effects.list("t")).toMatchObject([{ status: "done" }]);
  });

  test("the message about a result that can't be saved says what is wrong and where, and its advice works", async () => {
    const cyclic: unknown[] = [];
    cyclic.push({ deep: cyclic });
    const results: [unknown, string][] = [
      [{ client: { socket: () => undefined } }, "at result.client.socket there is a function"],
      [() => undefined, "at result there is a function"],
      [new Map([["conn", new (class Socket {})()]]), "at result<conn> there is an instance of Socket"],
      [cyclic, "at result[0].deep there is a cycle: it is result again"],
    ];
    for (const [result, where] of results) {
      const { saver, start, resume, results: returned } = oneEffect(() => result, {}, { failures: 0 });
      const first = await refusal(start());
      const again = await refusal(resume());
      const [{ id }] = (await saver.effects.list("t")) as unknown as [{ id: string }];
      for (const { message } of [first, again] as Error[]) {
        expect(message).toBe(
          `Effect "act" (#0) in node "a" of thread "t" is done, but its result can't be saved: ${where}. ` +
            `It won't run again. Return plain data from its function (or nothing), and give this effect a result: ` +
            `saver.effects.resolve("${id}", { outcome: "done", result }). Then resume.`,
        );
      }
      expect(first).toMatchObject({ data: { effectId: id, name: "act", nodeName: "a", threadId: "t" } });
      expect((first as Error).cause).toMatchObject({ code: "UNSERIALIZABLE_VALUE" });

      const refused = await refusal(saver.effects.resolve(id, { outcome: "done", result: { f: () => 1 } }));
      expect((refused as Error).message).toMatch(
        /^The result for effect "act".* can't be saved: at result\.f there is a function\. Nothing was changed\./,
      );
      expect(await refusal(saver.effects.resolve(id, { outcome: "not-done" }))).toMatchObject({ code: "EFFECT_NOT_IN_DOUBT" });
      expect(await saver.effects.resolve(id, { outcome: "done", result: { number: 17 } })).toMatchObject({ settledBy: "person" });
      expect((await resume()).log).toEqual(["ran"]);
      expect(returned).toEqual([{ number: 17 }]);
      expect(await refusal(saver.effects.resolve(id, { outcome: "done", result: 18 }))).toMatchObject({
        code: "EFFECT_NOT_IN_DOUBT",
      });
      expect(await saver.verify()).toMatchObject({ problems: [] });
    }
  });

  test("a result that the user's serde refuses is told so", async () => {
    const serde = {
      dumpsTyped: async (value: unknown) => {
        if (value instanceof Map) throw new RangeError("no maps");
        return new MemorySaver().serde.dumpsTyped(value);
      },
      loadsTyped: (type: string, data: string | Uint8Array) => new MemorySaver().serde.loadsTyped(type, data),
    };
    const saver = open(fresh(), { serde });
    const a = async () => ({ log: [String((await effect("act", () => new Map())).size)] });
    const error = (await refusal(attached(saver, line({ a })).invoke(empty, thread()))) as TurnsError;
    expect(error.message).toContain(
      'in node "a" of thread "t" is done, but its result can\'t be saved: the serde refused it. It won\'t',
    );
    expect(error.cause).toMatchObject({ cause: new RangeError("no maps") });
  });

  test("the message about an input that can't be saved says what is wrong and where", async () => {
    const { start } = oneEffect(() => 1, { input: { call: [() => 1] } });
    const error = (await refusal(start())) as TurnsError;
    expect(error.message).toBe(
      'The input of effect "act" (#0) in node "a" of thread "t" can\'t be saved: at input.call[0] there is a function. ' +
        "Nothing was done. Pass plain data as input, or leave the option out.",
    );
    expect(error).toMatchObject({ code: "UNSERIALIZABLE_VALUE", data: { name: "act", path: "input.call[0]" } });
  });

  test("an input that cannot be saved is refused, and nothing is done", async () => {
    const deeds = new Deeds();
    const { saver, start } = oneEffect(() => deeds.do("act"), { input: { call: () => 1 } });
    expect(await refusal(start())).toMatchObject({ code: "UNSERIALIZABLE_VALUE" });
    expect(deeds.lines()).toEqual([]);
    expect(await saver.effects.list("t")).toEqual([]);
  });

  test("what is done is not overridden by anyone who comes late", async () => {
    const { saver, start } = oneEffect(() => 1);
    await refusal(start());
    const [row] = await saver.effects.list("t");
    expect(await refusal(saver.effects.resolve(row!.id, { outcome: "not-done" }))).toMatchObject({ code: "EFFECT_NOT_IN_DOUBT" });
    expect(await saver.effects.list("t")).toMatchObject([{ status: "done" }]);
  });
});

describe("errors of the function", () => {
  test("by default the side effect did not happen, and is tried again with the same key", async () => {
    const keys: string[] = [];
    const { saver, start, resume } = oneEffect(
      (key) => {
        keys.push(key);
        if (keys.length < 3) throw new Error(`try ${keys.length}`);
        return "done";
      },
      {},
      { failures: 0 },
    );
    expect((await refusal(start())).message).toBe("try 1");
    expect(await saver.effects.list("t")).toMatchObject([{ status: "failed", tries: 1 }]);
    expect((await refusal(resume())).message).toBe("try 2");
    await resume();
    expect(new Set(keys).size).toBe(1);
    expect(await saver.effects.list("t")).toMatchObject([{ status: "done", tries: 3 }]);
  });

  test("a final error comes again as it was, without a call", async () => {
    let calls = 0;
    const declined = Object.assign(new RangeError("declined"), { reason: "no money" });
    const { start, resume, saver } = oneEffect(
      () => {
        calls += 1;
        throw declined;
      },
      { onError: (error) => (error instanceof RangeError ? "final" : "retryable") },
    );
    expect(await refusal(start())).toMatchObject({ name: "RangeError", message: "declined" });
    const again = await refusal(resume());
    expect(again).toMatchObject({ name: "RangeError", message: "declined", reason: "no money" });
    expect(calls).toBe(1);
    const [row] = await saver.effects.list("t");
    expect(row).toMatchObject({ status: "failed-for-good" });
    expect((await saver.effects.get(row!.id)).error).toMatchObject({ message: "declined" });
  });

  test.each<[string, EffectOptions<never>["onError"]]>([
    ["that say so", "unknown"],
    [
      "whose classification throws",
      () => {
        throw new Error("x");
      },
    ],
    ["whose classification gives nothing known", (() => "perhaps") as never],
  ])("errors that tell nothing leave it in doubt: those %s", async (_, onError) => {
    let calls = 0;
    const { start, resume } = oneEffect<never>(
      () => {
        calls += 1;
        throw new Error("socket hang up");
      },
      { onError: onError! },
    );
    const first = await refusal(start());
    expect(first).toMatchObject({ code: "EFFECT_IN_DOUBT" });
    expect(first.cause).toMatchObject({ message: "socket hang up" });
    expect(await refusal(resume())).toMatchObject({ code: "EFFECT_IN_DOUBT" });
    expect(calls).toBe(1);
  });

  test("LangGraph's retryPolicy does not turn a doubt into a repetition", async () => {
    let calls = 0;
    let bodies = 0;
    const a = async () => {
      bodies += 1;
      await effect(
        "act",
        () => {
          calls += 1;
          throw new Error("timeout");
        },
        { onError: "unknown" },
      );
      return {};
    };
    const graph = attached(open(fresh()), line({ a }, { a: { retryPolicy } }));
    expect(await refusal(graph.invoke(empty, thread()))).toMatchObject({ code: "EFFECT_IN_DOUBT" });
    expect([bodies, calls]).toEqual([4, 1]);
  });

  test("S4.4 in a node that is retried, what is done stays done and what failed is tried again", async () => {
    const deeds = new Deeds();
    let tries = 0;
    const a = async () => {
      await effect("mail", () => deeds.do("mail"));
      await effect("charge", () => {
        if (++tries < 3) throw new Error("503");
        deeds.do("charge");
      });
      return {};
    };
    await attached(open(fresh()), line({ a }, { a: { retryPolicy } })).invoke(empty, thread());
    expect(deeds.lines()).toEqual(["mail", "charge"]);
  });

  test("a further try within the node is the same effect, also for the next run; without input or id it is refused", async () => {
    for (const options of [{ input: 1 }, { id: "x" }, {}]) {
      const keys: string[] = [];
      let fail = true;
      const a = async () => {
        const act = () =>
          effect(
            "act",
            (key) => {
              keys.push(key);
              if (keys.length === 1) throw new Error("503");
              return "done";
            },
            options,
          );
        const log = await act().catch(act);
        if (fail) throw new Error("once");
        return { log: [log] };
      };
      const graph = attached(open(fresh()), line({ a }));
      const error = await refusal(graph.invoke(empty, thread()));
      fail = false;
      if (Object.keys(options).length === 0) expect(error).toMatchObject({ code: "EFFECT_CHANGED" });
      else {
        expect((await graph.invoke(null, thread())).log).toEqual(["done"]);
        expect(keys).toHaveLength(2);
        expect(new Set(keys).size).toBe(1);
      }
      closeAll();
    }
  });

  test.each([{}, { input: 1 }, { id: "x" }])(
    "a node that tries again what is in doubt (%j) is refused again, and fails although it caught that",
    async (options) => {
      let calls = 0;
      const a = async () => {
        for (let index = 0; index < 3; index += 1) {
          await effect(
            "act",
            () => {
              calls += 1;
              throw new Error("timeout");
            },
            { ...options, onError: "unknown" },
          ).catch(() => undefined);
        }
        return { log: ["as if nothing had happened"] };
      };
      const graph = attached(open(fresh()), line({ a, b: () => ({ log: ["b"] }) }));
      expect(await refusal(graph.invoke(empty, thread()))).toMatchObject({ code: "EFFECT_IN_DOUBT" });
      expect(calls).toBe(1);
      expect((await graph.getState(thread())).next).toEqual(["a"]);
    },
  );

  test("a ToolNode, which tells errors to the model, does not get it to try again what is in doubt", async () => {
    let calls = 0;
    const pay = tool(
      () =>
        effect(
          "pay",
          () => {
            calls += 1;
            throw new Error("timeout");
          },
          { onError: "unknown" },
        ),
      { name: "pay", description: "pays", schema: z.object({}) },
    );
    const saver = open(fresh());
    const model = () => ({
      messages: [new AIMessage({ content: "", tool_calls: [{ id: "c", name: "pay", args: {}, type: "tool_call" }] })],
    });
    const builder = new StateGraph(MessagesAnnotation)
      .addNode("model", model)
      .addNode("tools", new ToolNode([pay]))
      .addEdge(START, "model")
      .addEdge("model", "tools")
      .addEdge("tools", "model");
    const graph = saver.attach(builder.compile({ checkpointer: saver }));
    expect(await refusal(graph.invoke({ messages: [] }, thread()))).toMatchObject({ code: "EFFECT_IN_DOUBT" });
    expect(await refusal(graph.invoke(null, thread()))).toMatchObject({ code: "EFFECT_IN_DOUBT" });
    expect(calls).toBe(1);
  });

  test("what is no Error, or cannot be saved, is an outcome too", async () => {
    for (const thrown of ["text", Object.assign(new Error("with a function"), { call: () => 1 })]) {
      const { start, resume } = oneEffect<never>(
        () => {
          throw thrown as Error;
        },
        { onError: "final" },
      );
      await start().catch(() => undefined);
      const again = (await resume().catch((error: unknown) => error)) as { message?: string };
      expect(again.message ?? again).toBe(thrown instanceof Error ? thrown.message : thrown);
      closeAll();
    }
  });
});

describe("an effect in doubt", () => {
  test("S2.9 is refused, says how to settle it, and is not run", async () => {
    const path = fresh();
    await inDoubt(path, { input: "the secret input" });
    const { saver, resume } = resumed(path, () => "again", { input: "the secret input" });
    const error = await refusal(resume());
    const [row] = await saver.effects.list("t", { status: "in-doubt" });
    expect(error).toMatchObject({ code: "EFFECT_IN_DOUBT", data: { effectId: row!.id, key: row!.key, threadId: "t" } });
    expect(error.message).toContain(`saver.effects.resolve("${row!.id}"`);
    expect(error.message).not.toContain("secret");
  });

  test("a probe that finds it gives its result; one that does not lets it run; one that fails settles nothing", async () => {
    for (const [found, expected, calls] of [
      ["found", "found", 0],
      [undefined, "again", 1],
    ] as const) {
      const path = fresh();
      await inDoubt(path);
      let ran = 0;
      const asked: string[] = [];
      const { saver, resume } = resumed(
        path,
        () => {
          ran += 1;
          return "again";
        },
        {
          probe: (key) => {
            asked.push(key);
            return found;
          },
        },
      );
      expect((await resume()).log).toEqual([expected]);
      const [row] = await saver.effects.list("t");
      expect({ ran, asked, settledBy: row?.settledBy }).toEqual({
        ran: calls,
        asked: [row?.key],
        settledBy: found === undefined ? undefined : "probe",
      });
      closeAll();
    }
    const path = fresh();
    await inDoubt(path);
    const { resume } = resumed(path, () => "again", { probe: () => Promise.reject(new Error("no network")) });
    const error = await refusal(resume());
    expect(error).toMatchObject({ code: "EFFECT_IN_DOUBT" });
    expect(error.cause).toMatchObject({ message: "no network" });
  });

  test("declared idempotent, then and now, it runs again with the same key; declared only now it does not", async () => {
    for (const declared of [true, false]) {
      const path = fresh();
      await inDoubt(path, { idempotent: declared });
      const keys: string[] = [];
      const { saver, resume } = resumed(
        path,
        (key) => {
          keys.push(key);
          return "again";
        },
        { idempotent: true },
      );
      if (!declared) expect(await refusal(resume())).toMatchObject({ code: "EFFECT_IN_DOUBT" });
      else expect((await resume()).log).toEqual(["again"]);
      expect(keys).toEqual(declared ? [(await saver.effects.list("t"))[0]?.key] : []);
      closeAll();
    }
  });

  test("settled by hand: done with a result, done without, not done", async () => {
    for (const [settlement, expected] of [
      [{ outcome: "done", result: "by hand" }, "by hand"],
      [{ outcome: "not-done" }, "again"],
    ] as const) {
      const path = fresh();
      await inDoubt(path);
      const { saver, resume } = resumed(path, () => "again");
      const events = told(saver);
      const [row] = await saver.effects.list("t");
      expect(await saver.effects.resolve(row!.id, settlement)).toMatchObject({ settledBy: "person" });
      expect(events).toEqual(["resolved act #0"]);
      expect((await resume()).log).toEqual([expected]);
      closeAll();
    }
  });

  test("bad requests are refused by name, and change nothing", async () => {
    const path = fresh();
    await inDoubt(path);
    const saver = open(path);
    const [row] = await saver.effects.list("t");
    const id = row!.id;
    const bad: [Promise<unknown>, string][] = [
      [saver.effects.resolve(id, { outcome: "perhaps" } as never), "INVALID_OPTION"],
      [saver.effects.resolve(id, { outcome: "done", extra: 1 } as never), "INVALID_OPTION"],
      [saver.effects.resolve(id, undefined as never), "INVALID_OPTION"],
      [saver.effects.resolve(id, { outcome: "done", result: () => 1 }), "UNSERIALIZABLE_VALUE"],
      [saver.effects.resolve(id, { undo: "done" }), "EFFECT_NOT_IN_DOUBT"],
      [saver.effects.resolve("unknown", { outcome: "not-done" }), "EFFECT_NOT_FOUND"],
      [saver.effects.resolve("", { outcome: "not-done" }), "INVALID_OPTION"],
      [saver.effects.get(7 as never), "INVALID_OPTION"],
      [saver.effects.get("unknown"), "EFFECT_NOT_FOUND"],
      [saver.effects.list("t", { status: "lost" } as never), "INVALID_OPTION"],
      [saver.effects.list("t", { limit: -1 }), "INVALID_OPTION"],
      [saver.effects.list("", {}), "INVALID_CONFIG"],
    ];
    for (const [work, code] of bad) expect(await refusal(work)).toMatchObject({ code });
    expect(await saver.effects.list("t")).toEqual([row]);
    expect(await saver.effects.list("no such thread")).toEqual([]);
  });
});

describe("what identifies an effect", () => {
  test("the order of effects of one name, or their id; each has a key of its own", async () => {
    const keys: string[] = [];
    let fail = true;
    const a = async () => {
      const act = (id?: string) =>
        effect(
          "act",
          (key) => {
            keys.push(key);
            return keys.length;
          },
          id === undefined ? {} : { id },
        );
      const log = [
        await act(),
        await act(),
        await act("x"),
        await effect("other", (key) => {
          keys.push(key);
          return 0;
        }),
      ];
      if (fail) throw new Error("once");
      return { log: log.map(String) };
    };
    const saver = open(fresh());
    const graph = attached(saver, line({ a }));
    await refusal(graph.invoke(empty, thread()));
    fail = false;
    expect((await graph.invoke(null, thread())).log).toEqual(["1", "2", "3", "0"]);
    expect(new Set(keys).size).toBe(4);
    expect((await saver.effects.list("t")).map(({ label }) => label)).toEqual(["#0", "#1", "id:x", "#0"]);
  });

  test("parallel effects that come in another order are told apart by their inputs, and a new one gets a key that none has", async () => {
    const deeds = new Deeds();
    const keys = new Map<string, string>();
    let order = ["x", "y"];
    let fail = true;
    const a = async () => {
      const log = await Promise.all(
        order.map((item) =>
          effect(
            "act",
            (key) => {
              deeds.do(item);
              keys.set(item, key);
              return item;
            },
            { input: item },
          ),
        ),
      );
      if (fail) throw new Error("once");
      return { log };
    };
    const saver = open(fresh());
    const graph = attached(saver, line({ a }));
    await refusal(graph.invoke(empty, thread()));
    order = ["y", "z", "x"];
    fail = false;
    expect((await graph.invoke(null, thread())).log).toEqual(["y", "z", "x"]);
    expect(deeds.lines()).toEqual(["x", "y", "z"]);
    // "z" came as the second, as "y" had done: it must not get the key of "y".
    expect((await saver.effects.list("t")).map(({ label }) => label)).toEqual(["#0", "#1", "#2"]);
    expect(new Set(keys.values()).size).toBe(3);
  });

  test("a changed input is refused, unless it is said to be the same effect", async () => {
    for (const onInputChange of ["refuse", "accept"] as const) {
      let amount = 1;
      let calls = 0;
      let fail = true;
      const a = async () => {
        const log = await effect(
          "act",
          () => {
            calls += 1;
            return `paid ${amount}`;
          },
          { input: { amount }, onInputChange },
        );
        if (fail) throw new Error("once");
        return { log: [log] };
      };
      const graph = attached(open(fresh()), line({ a }));
      await refusal(graph.invoke(empty, thread()));
      [amount, fail] = [2, false];
      if (onInputChange === "refuse")
        expect(await refusal(graph.invoke(null, thread()))).toMatchObject({ code: "EFFECT_CHANGED" });
      else expect((await graph.invoke(null, thread())).log).toEqual(["paid 1"]);
      expect(calls).toBe(1);
      closeAll();
    }
  });

  test("S4.4 after a failure the input may be repaired; its receiver gets another key", async () => {
    const keys: string[] = [];
    let to = "nobody";
    const a = async () => {
      const send = (key: string): string => {
        keys.push(key);
        if (to === "nobody") throw new Error("no such address");
        return to;
      };
      return { log: [await effect("mail", send, { input: { to } })] };
    };
    const graph = attached(open(fresh()), line({ a }));
    await refusal(graph.invoke(empty, thread()));
    to = "ann";
    expect((await graph.invoke(null, thread())).log).toEqual(["ann"]);
    expect(new Set(keys).size).toBe(2);
  });

  test("Sends to one node, and the nodes of a step", async () => {
    const deeds = new Deeds();
    let fail = true;
    const saver = open(fresh());
    const builder = new StateGraph(Log)
      .addNode("w", async ({ item }: { item: string }) => {
        const log = [
          await effect("act", () => {
            deeds.do(item);
            return item;
          }),
        ];
        if (fail && item === "c") throw new Error("once");
        return { log };
      })
      .addConditionalEdges(START, () => ["a", "b", "c"].map((item) => new Send("w", { item })), ["w"]);
    const graph = saver.attach(builder.compile({ checkpointer: saver }));
    await refusal(graph.invoke(empty, thread()));
    fail = false;
    expect((await graph.invoke(null, thread())).log).toEqual(["a", "b", "c"]);
    expect(deeds.lines().toSorted()).toEqual(["a", "b", "c"]);
  });

  test("interrupts: what is done before and after one is not done again by the resume", async () => {
    const deeds = new Deeds();
    const a = async () => {
      await effect("before", () => deeds.do("before"));
      const first = interrupt<string, string>("1?");
      await effect("between", () => deeds.do(`between ${first}`));
      const second = interrupt<string, string>("2?");
      await effect("after", () => deeds.do(`after ${second}`));
      return {};
    };
    const graph = attached(open(fresh()), line({ a }));
    await graph.invoke(empty, thread());
    await graph.invoke(new Command({ resume: "A" }), thread());
    await graph.invoke(new Command({ resume: "B" }), thread());
    expect(deeds.lines()).toEqual(["before", "between A", "after B"]);
  });
});

describe("where it may be called", () => {
  test("functional tasks and entrypoints", async () => {
    const deeds = new Deeds();
    let fail = true;
    const saver = open(fresh());
    const send = task("send", async (to: string) => {
      const result = await effect("mail", () => {
        deeds.do(`mail ${to}`);
        return to.length;
      });
      if (fail && to === "bob") throw new Error("once");
      return result;
    });
    const flow = saver.attach(
      entrypoint({ name: "flow", checkpointer: saver }, async (names: string[]) => {
        await effect("log", () => deeds.do("log"));
        const [first, second] = await Promise.all(names.map((name) => send(name)));
        return [first, second];
      }),
    );
    await refusal(flow.invoke(["ann", "bob"], thread()));
    fail = false;
    expect(await flow.invoke(null, thread())).toEqual([3, 3]);
    expect(deeds.lines().toSorted()).toEqual(["log", "mail ann", "mail bob"]);
  });

  test("tools of a ToolNode that are called side by side, and runnables within a node", async () => {
    const deeds = new Deeds();
    let fail = true;
    const pay = tool(
      async ({ cents }) => {
        await pause(cents % 7);
        return effect(
          "pay",
          () => {
            deeds.do(`pay ${cents}`);
            return `paid ${cents}`;
          },
          { input: cents },
        );
      },
      { name: "pay", description: "pays", schema: z.object({ cents: z.number() }) },
    );
    const saver = open(fresh());
    const calls = [5, 13, 20].map((cents) => ({ id: `c${cents}`, name: "pay", args: { cents }, type: "tool_call" as const }));
    const lambda = RunnableLambda.from(async () =>
      effect("inner", () => {
        deeds.do("inner");
        return "x";
      }),
    );
    const builder = new StateGraph(MessagesAnnotation)
      .addNode("model", async () => {
        await lambda.invoke({});
        return { messages: [new AIMessage({ content: "", tool_calls: calls })] };
      })
      .addNode("tools", async (state, config) => {
        const result = (await new ToolNode([pay]).invoke(state, config)) as typeof MessagesAnnotation.State;
        if (fail) throw new Error("once");
        return result;
      })
      .addEdge(START, "model")
      .addEdge("model", "tools");
    const graph = saver.attach(builder.compile({ checkpointer: saver }));
    await refusal(graph.invoke({ messages: [new HumanMessage("pay")] }, thread()));
    fail = false;
    const { messages } = await graph.invoke(null, thread());
    expect(messages.slice(-3).map(({ content }) => content)).toEqual(["paid 5", "paid 13", "paid 20"]);
    expect(deeds.lines().toSorted()).toEqual(["inner", "pay 13", "pay 20", "pay 5"]);
  });

  test("with the config as an option; streamed", async () => {
    const deeds = new Deeds();
    const a = async (_: unknown, config: object) => ({
      log: [
        await effect(
          "act",
          () => {
            deeds.do("act");
            return "x";
          },
          { config },
        ),
      ],
    });
    const graph = attached(open(fresh()), line({ a }));
    for await (const _ of await graph.stream(empty, { ...thread(), streamMode: "updates" }));
    expect(deeds.lines()).toEqual(["act"]);
  });

  test("outside of a node, or in a graph that no TurnSaver is attached to, it is refused and nothing is done", async () => {
    let calls = 0;
    const act = () => effect("act", () => (calls += 1));
    expect(await refusal(act())).toMatchObject({ code: "EFFECT_OUTSIDE_NODE" });
    expect(await refusal(effect("act", () => (calls += 1), { config: { configurable: { thread_id: "t" } } }))).toMatchObject({
      code: "EFFECT_OUTSIDE_NODE",
    });
    const body = { a: async () => ({ log: [String(await act())] }) };
    const saver = open(fresh());
    for (const checkpointer of [saver, new MemorySaver()]) {
      expect(await refusal(line(body).compile({ checkpointer }).invoke(empty, thread()))).toMatchObject({
        code: "EFFECT_OUTSIDE_NODE",
      });
    }
    expect(calls).toBe(0);
  });

  test.each(["thread_id", "checkpoint_ns", "__pregel_task_id"])(
    "with a config of its node's that lacks %s it is refused and nothing is done",
    async (lacking) => {
      const deeds = new Deeds();
      const refused: unknown[] = [];
      const a = async (_: unknown, { configurable, ...rest }: { configurable?: Record<string, unknown> }) => {
        const less = { ...rest, configurable: { ...configurable, [lacking]: undefined } };
        refused.push(await refusal(effect("act", () => deeds.do("act"), { config: less })));
        return { log: ["ran"] };
      };
      await attached(open(fresh()), line({ a })).invoke(empty, thread());
      expect(refused).toMatchObject([{ code: "EFFECT_OUTSIDE_NODE" }]);
      expect(deeds.lines()).toEqual([]);
    },
  );

  test("a config of its node's that does not tell the checkpoints around it is enough", async () => {
    const a = async (_: unknown, { configurable, ...rest }: { configurable?: Record<string, unknown> }) => {
      const config = { ...rest, configurable: { ...configurable, checkpoint_map: undefined } };
      return { log: [await effect("act", () => "done", { config })] };
    };
    const { log } = await attached(open(fresh()), line({ a })).invoke(empty, thread());
    expect(log).toEqual(["done"]);
  });

  test("what a node did not wait for is refused once it has returned", async () => {
    let late: Promise<unknown> | undefined;
    let calls = 0;
    const a = () => {
      late = pause(20).then(() => effect("act", () => (calls += 1)));
      late.catch(() => undefined);
      return {};
    };
    await attached(open(fresh()), line({ a })).invoke(empty, thread());
    expect(await refusal(late!)).toMatchObject({ code: "EFFECT_OUTSIDE_NODE" });
    expect(calls).toBe(0);
  });

  test("bad calls are refused by name before anything is done", async () => {
    const bad: [unknown[], RegExp][] = [
      [["", () => 1], /name of an effect/],
      [[7, () => 1], /name of an effect/],
      [["act", "no function"], /What effect "act" does/],
      [["act", () => 1, { undo: true }], /"undo"/],
      [["act", () => 1, { undo: "" }], /"undo"/],
      [["act", () => 1, { idempotent: "yes" }], /"idempotent"/],
      [["act", () => 1, { probe: {} }], /"probe"/],
      [["act", () => 1, { id: "" }], /"id"/],
      [["act", () => 1, { onError: "maybe" }], /"onError"/],
      [["act", () => 1, { onInputChange: "x" }], /"onInputChange"/],
      [["act", () => 1, { config: 1 }], /"config"/],
      [["act", () => 1, { inputs: 1 }], /"inputs"/],
    ];
    for (const [args, message] of bad) {
      const error = await refusal((effect as (...given: unknown[]) => Promise<unknown>)(...args));
      expect(error).toMatchObject({ code: "INVALID_OPTION", message: expect.stringMatching(message) as string });
    }
  });
});

describe("attempts that were given up", () => {
  test("a node that ran into its timeout: its running effect is joined by the retry, and it begins nothing more", async () => {
    const deeds = new Deeds();
    let attempts = 0;
    const zombie: unknown[] = [];
    let retried = (): void => undefined;
    let joined = (): void => undefined;
    const isRetried = new Promise<void>((resolve) => (retried = resolve));
    const isJoined = new Promise<void>((resolve) => (joined = resolve));
    const a = async () => {
      const attempt = ++attempts;
      if (attempt > 1) retried();
      const log = [
        await effect(
          "slow",
          async () => {
            await isRetried;
            await pause(50);
            deeds.do("slow");
            return "slow";
          },
          { input: 1 },
        ),
      ];
      if (attempt === 1) await isJoined;
      const next = effect("next", () => {
        deeds.do("next");
        return "next";
      });
      if (attempt === 1) next.catch((error: unknown) => zombie.push(error));
      const all = [...log, await next];
      joined();
      return { log: all };
    };
    const saver = open(fresh());
    // Long enough for the retry to end, however busy the machine is.
    const graph = attached(saver, line({ a }, { a: { timeout: 2_000, retryPolicy } }));
    const { log } = await graph.invoke(empty, thread());
    expect(log).toEqual(["slow", "next"]);
    while (zombie.length === 0) await pause(10);
    expect(deeds.lines()).toEqual(["slow", "next"]);
    expect(zombie).toMatchObject([{ code: "EFFECT_OUTSIDE_NODE" }]);
  });
});

describe("the store", () => {
  const locked = (path: string) => {
    const other = new Database(path);
    other.exec("BEGIN IMMEDIATE");
    return () => {
      other.exec("ROLLBACK");
      other.close();
    };
  };

  test("an intent that cannot be committed: nothing is done", async () => {
    const path = fresh();
    const saver = open(path, { busyTimeoutMs: 30 });
    let calls = 0;
    let release = (): void => undefined;
    const a = async () => {
      release = locked(path);
      try {
        await effect("act", () => (calls += 1));
      } finally {
        release();
      }
      return {};
    };
    expect(await refusal(attached(saver, line({ a })).invoke(empty, thread()))).toMatchObject({ code: "STORE_BUSY" });
    expect(calls).toBe(0);
    expect(await saver.effects.list("t")).toEqual([]);
  });

  test.each(["done", "final", "failed"])(
    "an outcome that cannot be committed (%s) is recorded by a retry in the same process",
    async (kind) => {
      const path = fresh();
      const warned: Warned[] = [];
      const saver = open(path, { busyTimeoutMs: 30, logger: quietLogger(warned) });
      let calls = 0;
      let release: (() => void) | undefined;
      const a = async () => {
        try {
          const result = await effect(
            "act",
            () => {
              calls += 1;
              if (calls === 1) release = locked(path);
              if (kind !== "done" && calls === 1) throw new Error("outcome");
              return "result";
            },
            { onError: kind === "final" ? "final" : "retryable" },
          );
          return { log: [result] };
        } finally {
          release?.();
          release = undefined;
        }
      };
      const graph = attached(saver, line({ a }));
      const first = await refusal(graph.invoke(empty, thread()));
      if (kind === "done") expect(first).toMatchObject({ code: "EFFECT_NOT_RECORDED" });
      else expect(first).toMatchObject({ message: "outcome" });
      expect(await saver.effects.list("t")).toMatchObject([{ status: "in-doubt" }]);
      const second = await graph.invoke(null, thread()).catch((error: unknown) => error as Error);
      if (kind === "final") expect(second).toMatchObject({ message: "outcome" });
      else expect(second).toMatchObject({ log: ["result"] });
      expect(calls).toBe(kind === "failed" ? 2 : 1);
    },
  );

  test("an outcome that cannot be committed is in doubt for another process or saver", async () => {
    const path = fresh();
    const saver = open(path, { busyTimeoutMs: 30 });
    let release = (): void => undefined;
    const a = () =>
      effect("act", () => {
        release = locked(path);
        return "x";
      })
        .finally(() => release())
        .then((log) => ({ log: [log] }));
    await refusal(attached(saver, line({ a })).invoke(empty, thread()));
    saver.close();
    expect(await refusal(resumed(path, () => "again").resume())).toMatchObject({ code: "EFFECT_IN_DOUBT" });
  });

  test("two savers on one file in one process: one does it, the other joins", async () => {
    const path = fresh();
    const deeds = new Deeds();
    const first = open(path);
    let begins!: () => void;
    let ends!: () => void;
    const begun = new Promise<void>((resolve) => (begins = resolve));
    const ended = new Promise<void>((resolve) => (ends = resolve));
    const body = {
      a: () =>
        effect("act", async () => {
          begins();
          await ended;
          deeds.do("act");
          return "x";
        }).then((log) => ({ log: [log] })),
    };
    const running = attached(first, line(body)).invoke(empty, thread());
    await begun;
    const second = open(path);
    expect((await second.effects.list("t"))[0]).toMatchObject({ status: "running" });
    expect(await refusal(second.effects.resolve((await second.effects.list("t"))[0]!.id, { outcome: "not-done" }))).toMatchObject(
      { code: "EFFECT_NOT_IN_DOUBT" },
    );
    const joined = attached(second, line(body)).invoke(null, thread());
    await pause(80);
    ends();
    expect((await joined).log).toEqual(["x"]);
    expect((await running).log).toEqual(["x"]);
    expect(deeds.lines()).toEqual(["act"]);
  });

  test("THREAD_DELETED ends a run whose thread is deleted while an effect is running, no matter what was deleted before", async () => {
    const saver = open(fresh());
    await attached(saver, line({ a: () => ({}) })).invoke(empty, thread());
    await saver.deleteThread("t");
    const a = async () => {
      await effect("act", async () => {
        await saver.deleteThread("t");
      });
      return {};
    };
    expect(await refusal(attached(saver, line({ a })).invoke(empty, thread()))).toMatchObject({
      code: "THREAD_DELETED",
      message: expect.stringMatching(/thread was deleted at .*effect "act"/) as string,
      data: { threadId: "t", name: "act" },
    });
    expect(await saver.effects.list("t")).toEqual([]);
  });

  test("encrypted, nothing of inputs, results and errors stands in the file", async () => {
    const path = fresh();
    const encryption = { key: "6b1f0c93d2a4e58717c90ab3fe5d62480199aabbccddeeff1122334455667788" };
    const saver = open(path, { encryption });
    const secret = "Zq7xSwordfish";
    let fail = true;
    const a = async () => {
      const small = await effect("small", () => ({ secret }), { input: secret });
      await effect("large", () => secret.repeat(500), { input: secret.repeat(400) });
      await effect(
        "bad",
        () => {
          throw new Error(secret);
        },
        { onError: "final" },
      ).catch(() => undefined);
      if (fail) throw new Error("once");
      return { log: [small.secret] };
    };
    const graph = attached(saver, line({ a }));
    await refusal(graph.invoke(empty, thread()));
    fail = false;
    expect((await graph.invoke(null, thread())).log).toEqual([secret]);
    saver.close();
    expect(everythingIn(path)).not.toContain(secret);
  });

  test("with a serde of the user's, and without turns", async () => {
    for (const options of [{ serde: new MemorySaver().serde }, { turns: "off" as const }]) {
      const deeds = new Deeds();
      const saver = open(fresh(), options);
      let fail = true;
      const a = async () => {
        const log = await Promise.all(
          ["x", "y"].map((item) =>
            effect(
              "act",
              () => {
                deeds.do(item);
                return item;
              },
              { input: { item } },
            ),
          ),
        );
        await effect(
          "bad",
          () => {
            deeds.do("bad");
            throw new Error("final");
          },
          { onError: "final" },
        ).catch(() => undefined);
        if (fail) throw new Error("once");
        return { log };
      };
      const graph = attached(saver, line({ a }));
      await refusal(graph.invoke(empty, thread()));
      fail = false;
      expect((await graph.invoke(null, thread())).log).toEqual(["x", "y"]);
      expect(deeds.lines().toSorted()).toEqual(["bad", "x", "y"]);
      closeAll();
    }
  });

  test("prune keeps what a resume needs and what is in doubt, and removes what nobody can return to", async () => {
    const saver = open(fresh());
    let doubt = true;
    const a = async () => {
      await effect("act", () => "x");
      if (doubt)
        await effect(
          "doubt",
          () => {
            throw new Error("?");
          },
          { onError: "unknown" },
        );
      return {};
    };
    const graph = attached(saver, line({ a, b: () => ({}) }));
    await refusal(graph.invoke(empty, thread()));
    await saver.prune({ threadId: "t", keepLast: 1 });
    expect((await saver.effects.list("t")).map(({ name }) => name)).toEqual(["act", "doubt"]);
    doubt = false;
    await graph.invoke(null, thread());
    await graph.invoke(empty, thread());
    await graph.invoke(empty, thread());
    await saver.prune({ threadId: "t", keepLast: 1 });
    expect((await saver.effects.list("t")).map(({ name }) => name)).toEqual(["doubt"]);
  });
});
