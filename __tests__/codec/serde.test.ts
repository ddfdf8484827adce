import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import Database from "better-sqlite3";
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { Annotation, Command, interrupt, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { emptyCheckpoint, MemorySaver, type SerializerProtocol } from "@langchain/langgraph-checkpoint";
import { validate } from "@langchain/langgraph-checkpoint-validation";
import { CheckpointPersister, TurnSaver } from "langgraph-checkpoint-turns";
import { internalsOf, UserSerde } from "../../src/testing-internal";
import { tempFile } from "../support/temp";

const plain = new MemorySaver().serde;

/** Encrypts what the official serde makes: bytes that are no text, other ones each time, and later than the call. */
function encrypting(key: Buffer, delays: number[] = []): SerializerProtocol {
  return {
    async dumpsTyped(value) {
      const [type, data] = await plain.dumpsTyped(value);
      const wait = delays.shift();
      if (wait !== undefined) await new Promise((resolve) => setTimeout(resolve, wait));
      const nonce = randomBytes(12);
      const cipher = createCipheriv("aes-256-gcm", key, nonce);
      return [type, Buffer.concat([nonce, cipher.update(data), cipher.final(), cipher.getAuthTag()])];
    },
    async loadsTyped(type, data) {
      const bytes = Buffer.from(data as Uint8Array);
      const decipher = createDecipheriv("aes-256-gcm", key, bytes.subarray(0, 12));
      decipher.setAuthTag(bytes.subarray(-16));
      const opened = Buffer.concat([decipher.update(bytes.subarray(12, -16)), decipher.final()]);
      return plain.loadsTyped(type, new Uint8Array(opened));
    },
  };
}

const key = randomBytes(32);
const config = { configurable: { thread_id: "t" } };

function world(serde: SerializerProtocol, file = tempFile()) {
  const saver = TurnSaver.fromPath(file, { serde });
  const State = Annotation.Root({ ...MessagesAnnotation.spec, asked: Annotation<string>() });
  const graph = saver.attach(
    new StateGraph(State)
      .addNode("ask", () => ({ asked: interrupt<string, string>("SECRET question") }))
      .addNode("answer", ({ asked }) => ({ messages: [new AIMessage({ content: `SECRET answer to ${asked}`, id: "a" })] }))
      .addEdge(START, "ask")
      .addEdge("ask", "answer")
      .compile({ checkpointer: saver }),
  );
  return { file, saver, graph };
}

describe("I3.1 a serde of the user's", () => {
  validate({
    checkpointerName: "TurnSaver with an encrypting serde",
    createCheckpointer: () => TurnSaver.fromPath(":memory:", { serde: encrypting(key) }),
    destroyCheckpointer: (saver) => void saver.close(),
  });

  test("I3.1 messages, an interrupt and its answer, another process, turns and history: all through the serde", async () => {
    const { file, saver, graph } = world(encrypting(key));
    await graph.invoke({ messages: [new HumanMessage({ content: "SECRET input", id: "h" })] }, config);
    saver.close();
    const again = world(encrypting(key), file);
    const done = await again.graph.invoke(new Command({ resume: "SECRET resume" }), config);
    expect(done.messages.map(({ content }: { content: unknown }) => content)).toEqual([
      "SECRET input",
      "SECRET answer to SECRET resume",
    ]);
    const history = [];
    for await (const state of again.graph.getStateHistory(config)) history.push(state.values);
    expect(history.length).toBeGreaterThan(3);
    const turns = await again.saver.turns.list("t");
    expect(await again.saver.turns.state(turns.at(-1)!)).toMatchObject({
      messages: [{ content: "SECRET answer to SECRET resume" }],
    });
    const listed = [];
    for await (const tuple of again.saver.list(config, { filter: { source: "loop" } })) listed.push(tuple.metadata?.source);
    expect(new Set(listed)).toEqual(new Set(["loop"]));
    again.saver.close();
    expect(readFileSync(file).includes("SECRET")).toBe(false);
  });

  test("I3.1 saves commit in the order in which they were asked for, however long each is serialised", async () => {
    const saver = TurnSaver.fromPath(":memory:", { serde: encrypting(key, [40, 40, 0, 0, 20, 20]) });
    const order: string[] = [];
    saver.events.on("checkpoint", ({ checkpointId }) => void order.push(checkpointId));
    const saves = ["1", "2", "3"].map((id) =>
      saver.put(
        config,
        { ...emptyCheckpoint(), id, channel_values: { x: { id } }, channel_versions: { x: 1 } },
        { source: "loop", step: 0, parents: {} },
        { x: 1 },
      ),
    );
    const tuple = await saver.getTuple(config);
    expect(tuple?.checkpoint.channel_values).toEqual({ x: { id: "3" } });
    await Promise.all(saves);
    expect(order).toEqual(["1", "2", "3"]);
    saver.close();
  });

  test("I3.1 what the caller changes after its call isn't saved", async () => {
    const { saver } = world(encrypting(key, [20, 20, 20]));
    const metadata = { source: "loop" as const, step: 3, parents: { outer: "a" } as Record<string, string> };
    const checkpoint = { ...emptyCheckpoint(), channel_values: { x: 1 }, channel_versions: { x: 1 } };
    const at = { configurable: { thread_id: "changed", checkpoint_ns: "" } };
    const saving = saver.put(at, checkpoint, metadata, { x: 1 });
    Object.assign(metadata, { source: "fork", step: 9 });
    metadata.parents["outer"] = "b";
    await saving;
    const head = await internalsOf(saver).store.getCheckpoint("changed", "", undefined, {
      elements: () => 0,
      chunk: () => false,
    });
    expect(head).toMatchObject({ source: "loop", step: 3 });
    expect(await saver.getTuple(at)).toMatchObject({ metadata: { source: "loop", step: 3, parents: { outer: "a" } } });
    saver.close();
  });

  test("I3.1 what rests on a checkpoint that the serde refuses is refused with the same error, though it was handed in before", async () => {
    const serde: SerializerProtocol = {
      dumpsTyped: async (value) => {
        if (value !== "refused") return plain.dumpsTyped(value);
        await new Promise((resolve) => setTimeout(resolve, 20));
        throw new Error("no");
      },
      loadsTyped: (type, data) => plain.loadsTyped(type, data),
    };
    const saver = TurnSaver.fromPath(":memory:", { serde });
    const put = (id: string, x: string, parent?: string) =>
      saver.put(
        { configurable: { ...config.configurable, checkpoint_id: parent } },
        { ...emptyCheckpoint(), id, channel_values: { x }, channel_versions: { x: 1 } },
        { source: "loop", step: 0, parents: {} },
        { x: 1 },
      );
    await put("1", "there");
    const saves = await Promise.allSettled([put("2", "refused", "1"), put("3", "rests on it", "2")]);
    expect(saves).toMatchObject([{ reason: { code: "UNSERIALIZABLE_VALUE" } }, { reason: { code: "UNSERIALIZABLE_VALUE" } }]);
    expect((await saver.getTuple(config))?.checkpoint.id).toBe("1");
    saver.close();
  });

  test("I3.1 a value that the serde refuses is a named error; what was saved before is intact, and saving continues", async () => {
    let refuses = false;
    const serde: SerializerProtocol = {
      dumpsTyped: async (value) => {
        if (refuses) throw new Error("no");
        return plain.dumpsTyped(value);
      },
      loadsTyped: (type, data) => plain.loadsTyped(type, data),
    };
    const saver = TurnSaver.fromPath(":memory:", { serde });
    const put = (id: string) =>
      saver.put(
        config,
        { ...emptyCheckpoint(), id, channel_values: { x: id }, channel_versions: { x: 1 } },
        { source: "loop", step: 0, parents: {} },
        { x: 1 },
      );
    await put("1");
    refuses = true;
    await expect(put("2")).rejects.toMatchObject({ code: "UNSERIALIZABLE_VALUE" });
    refuses = false;
    await put("3");
    expect((await saver.getTuple(config))?.checkpoint.channel_values).toEqual({ x: "3" });
    saver.close();
  });

  test("I3.1 a save that is refused at once overtakes nothing, and a deletion waits for what came before", async () => {
    const serde: SerializerProtocol = {
      dumpsTyped: async (value) => {
        if (value === "refused") throw new Error("no");
        if (value === "slow") await new Promise((resolve) => setTimeout(resolve, 50));
        return plain.dumpsTyped(value);
      },
      loadsTyped: (type, data) => plain.loadsTyped(type, data),
    };
    const saver = TurnSaver.fromPath(":memory:", { serde });
    const order: string[] = [];
    saver.events.on("checkpoint", ({ checkpointId }) => void order.push(checkpointId));
    const put = (id: string, x: string) =>
      saver.put(
        config,
        { ...emptyCheckpoint(), id, channel_values: { x }, channel_versions: { x: 1 } },
        { source: "loop", step: 0, parents: {} },
        { x: 1 },
      );
    const saves = [put("1", "slow"), put("2", "refused"), put("3", "fast")];
    const deleted = saver.deleteThread("t");
    expect((await Promise.allSettled(saves)).map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    await deleted;
    expect(order).toEqual(["1", "3"]);
    expect(await saver.getTuple(config)).toBeUndefined();
    saver.close();
  });

  test("I3.1 what a save returned isn't kept after it, however many follow", async () => {
    setFlagsFromString("--expose-gc");
    const gc = runInNewContext("gc") as () => void;
    const serde = new UserSerde(plain);
    const save = async () => new WeakRef(await serde.inOrder(Promise.resolve(), () => ({ seq: 1 })));
    const first = await save();
    await save();
    await save();
    await new Promise((resolve) => setImmediate(resolve));
    gc();
    expect(first.deref()).toBeUndefined();
    await serde.settled();
  });

  test("I3.1 a checkpoint without versions_seen is saved, as without a serde", async () => {
    const { saver } = world(encrypting(key));
    const { versions_seen: _, ...checkpoint } = emptyCheckpoint();
    const metadata = { source: "input", step: -1, parents: {} } as const;
    const at = { configurable: { thread_id: "bare", checkpoint_ns: "" } };
    await saver.put(at, checkpoint as ReturnType<typeof emptyCheckpoint>, metadata, {});
    expect((await saver.getTuple(at))?.checkpoint.id).toBe(checkpoint.id);
    saver.close();
  });

  test("I3.1 without the serde, or with another, reading is refused by name", async () => {
    const { file, saver, graph } = world(encrypting(key));
    await graph.invoke({ messages: [new HumanMessage("hi")] }, config);
    saver.close();
    for (const options of [{}, { serde: encrypting(randomBytes(32)) }]) {
      const other = TurnSaver.fromPath(file, options);
      await expect(other.getTuple(config)).rejects.toMatchObject({ code: "UNDECODABLE_VALUE" });
      other.close();
    }
    const db = new Database(file);
    expect(() => new CheckpointPersister(db).loadLatest("t")).toThrow(expect.objectContaining({ code: "UNDECODABLE_VALUE" }));
    db.close();
  });
});
