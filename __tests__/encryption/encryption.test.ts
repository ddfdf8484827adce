import { rotateKeys } from "langgraph-checkpoint-turns/maintenance";
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { HumanMessage } from "@langchain/core/messages";
import { emptyCheckpoint } from "@langchain/langgraph-checkpoint";
import { deltaChannelHistoryTests, validate } from "@langchain/langgraph-checkpoint-validation";
import Database from "better-sqlite3";
import { type EncryptionOption, TurnsError, TurnSaver } from "langgraph-checkpoint-turns";
import { type KeySet, internalsOf } from "../../src/testing-internal";
import { answer, at, input, KEY, SECRET, secretGraph, SMALL } from "../support/enc-graph";
import { longTest } from "../support/lane-test";
import { dump, quiet, SPAN, sqlOn } from "../support/s1-tools";
import { tempFile } from "../support/temp";
import { childProgram } from "../support/child-program";
import { openPersister } from "../support/open-persister";
import { ON_POSTGRES, openSaver } from "../support/open-saver";
import { testOfFiles } from "../support/test-of-files";

const open: TurnSaver[] = [];
afterEach(() => {
  for (const saver of open.splice(0)) saver.close();
});

function saverOn(path: string, encryption: EncryptionOption | undefined = { key: KEY }): TurnSaver {
  const saver = openSaver(path, { logger: quiet, encryption });
  open.push(saver);
  return saver;
}

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

/** The code of the error that comes, also where it is thrown at once. */
async function codeOf(work: () => unknown): Promise<string> {
  try {
    await work();
  } catch (error) {
    return TurnsError.is(error) ? error.code : `no TurnsError: ${String(error)}`;
  }
  return "nothing was thrown";
}

/** The code of the error that a saver is refused with: when it's opened, or on a server at its first access. */
const codeOfOpening = (opening: () => TurnSaver): Promise<string> => codeOf(() => opening().getTuple(at("none")));

const child = (...args: string[]): Promise<{ out: string; signal: string | null }> =>
  new Promise((resolve) => {
    const run = spawn(process.execPath, [...childProgram(join(__dirname, "enc-child.ts")), ...args], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    let out = "";
    run.stdout.on("data", (chunk) => (out += String(chunk)));
    run.on("close", (_, signal) => resolve({ out: out.trim(), signal }));
  });

/** The names under which a file keeps its secret, sealed once by each key. */
const secretsIn = (path: string): unknown[] =>
  (dump(path)["langgraph_settings"] as { name: string }[]).flatMap(({ name }) => (name === "threads" ? [] : [name]));

const plainValues = (values: Record<string, unknown>) => JSON.parse(JSON.stringify(values)) as unknown;

describe("LangGraph's own suite on an encrypted saver", () => {
  const initializer = {
    checkpointerName: "langgraph-checkpoint-turns (encrypted)",
    createCheckpointer: () => openSaver(":memory:", { logger: quiet, encryption: { key: KEY } }),
    destroyCheckpointer: (saver: TurnSaver) => saver.close(),
  };
  validate(initializer);
  deltaChannelHistoryTests(initializer);
});

/** A secret as it would be found in a file: as it is, and in base64 wherever it begins, and in hexadecimal. */
function encodingsOf(secret: string): Buffer[] {
  const bytes = Buffer.from(secret, "utf8");
  // Only the characters that the secret alone decides, and all of those: a few of them stand anywhere among so many checksums.
  const base64 = [0, 1, 2].map((lead) => {
    const text = Buffer.concat([Buffer.alloc(lead), bytes]).toString("base64");
    return text.slice(Math.ceil((lead * 8) / 6), Math.floor(((lead + bytes.length) * 8) / 6));
  });
  return [bytes, Buffer.from(secret, "utf16le"), ...base64, bytes.toString("hex"), bytes.toString("hex").toUpperCase()].map(
    (text) => Buffer.from(text as string),
  );
}

/** Where a store has a secret: its files, or what a server returns of its tables. */
function foundIn(path: string, secret: string): string[] {
  const files = [path, `${path}-wal`, `${path}-shm`].filter((file) => existsSync(file));
  const places = files.map((file): [string, Buffer] => [file.slice(path.length), readFileSync(file)]);
  if (ON_POSTGRES && files.length === 0)
    for (const [table, rows] of Object.entries(dump(path))) places.push([table, bytesOf(rows)]);
  return places.flatMap(([place, content]) =>
    encodingsOf(secret)
      .filter((encoding) => content.includes(encoding))
      .map((encoding) => `${place} has ${encoding.toString("latin1")}`),
  );
}

function bytesOf(rows: readonly unknown[]): Buffer {
  const values = rows.flatMap((row) => Object.values(row as object) as unknown[]);
  return Buffer.concat(values.map((value) => (value instanceof Uint8Array ? value : Buffer.from(`${String(value)}\n`))));
}

/** Sealed contents, another way in one bit. */
function flip(stored: unknown, place: number): unknown {
  if (typeof stored === "string") {
    const { v } = JSON.parse(stored) as { v: string };
    return JSON.stringify({ "~": "sealed", v: (flip(Buffer.from(v, "base64"), place) as Buffer).toString("base64") });
  }
  const bytes = Buffer.from(stored as Buffer);
  bytes[place < 0 ? bytes.length + place : place]! ^= 1;
  return bytes;
}

/** Every kind of payload there is, on thread "t"; archives included. */
async function busyWorld(saver: TurnSaver): Promise<void> {
  const graph = secretGraph(saver);
  await graph.invoke(input("ask"), at("t"));
  await graph.invoke(answer, at("t"));
  await graph.invoke(input("break"), at("t")).catch(() => undefined);
  await graph.updateState(at("t"), { pin: `${SMALL}!`, log: [SECRET] });
  const [first] = await saver.turns.tasks("t");
  await saver.rewind({ threadId: "t", toTask: first!.taskId });
  await graph.invoke(input("break", "again"), at("t")).catch(() => undefined);
  await graph.invoke(input("ask", "and again"), at("u"));
  const failure = JSON.stringify({ error: { name: "Error", message: SECRET } });
  await internalsOf(saver).store.saveRecovery("u", { tries: 1, progress: "", waitMs: 0, failure, givenUp: true }, undefined, 1);
}

describe("S4.6 nothing of the payload is readable in the file", () => {
  const secrets = [SECRET, SMALL, "interrupts", "broken", "inside", "answer", "HumanMessage", "plan plan"];

  test("S4.6 in no table and not in the log: values, metadata, writes, interrupts, answers, Sends, errors, archives", async () => {
    const path = tempFile();
    await busyWorld(saverOn(path));
    expect(foundIn(path, SECRET)).toEqual([]);
    expect(foundIn(path, SMALL)).toEqual([]);
    open.pop()!.close();
    sqlOn(path, "PRAGMA wal_checkpoint(TRUNCATE)");
    for (const secret of secrets) expect(foundIn(path, secret)).toEqual([]);
  });

  test("S4.6 the same run without encryption is full of them, so the search finds what is there", async () => {
    const path = tempFile();
    await busyWorld(openSaver(path, { logger: quiet }));
    expect(foundIn(path, SECRET)).not.toEqual([]);
    expect(foundIn(path, SMALL)).not.toEqual([]);
    const hidden = tempFile();
    for (const form of encodingsOf(SECRET)) {
      writeFileSync(hidden, Buffer.concat([randomBytes(99), form, randomBytes(99)]));
      expect(foundIn(hidden, SECRET)).toHaveLength(1);
    }
    for (const lead of [0, 1, 2]) {
      writeFileSync(hidden, Buffer.from("abc".slice(0, lead) + SECRET + "xyz").toString("base64"));
      expect(foundIn(hidden, SECRET)).not.toEqual([]);
    }
  });

  test("S4.6 no error of a damaged row quotes what it holds", async () => {
    const path = tempFile();
    await busyWorld(saverOn(path));
    const db = new Database(path);
    const change = db.prepare("UPDATE langgraph_snapshots SET metadata = ? WHERE seq = ?");
    for (const { seq, metadata } of db.prepare("SELECT seq, metadata FROM langgraph_snapshots").all() as any[])
      change.run(flip(metadata, -1), seq);
    db.close();
    const error = await saverOn(path)
      .getTuple(at("t"))
      .catch((thrown: unknown) => thrown);
    expect(TurnsError.is(error, "CHECKPOINT_CORRUPTED")).toBe(true);
    expect(JSON.stringify([String(error), error])).not.toContain(SECRET);
  });
});

describe("I7.2 an encrypted saver does what a plain one does", () => {
  test.each(["encrypted", "plain"])(
    "I7.2 interrupt, answer, subgraph, list with a filter, turns and their states (%s)",
    async (kind) => {
      const used = kind === "plain" ? openSaver(tempFile(), { logger: quiet }) : saverOn(tempFile());
      open.push(used);
      const graph = secretGraph(used);
      await graph.invoke(input("ask"), at("t"));
      const waiting = await graph.getState(at("t"));
      expect(waiting.next).toEqual(["ask"]);
      expect(waiting.tasks[0]!.interrupts[0]!.value).toEqual({ question: SECRET });
      const { log, pin } = await graph.invoke(answer, at("t"));
      expect(log).toEqual([
        `plan ${SECRET}`,
        ...work,
        `plan ${SECRET}`,
        ...work,
        `s2 ${SECRET} inside`,
        `answer ${SECRET} yes`,
        "done",
      ]);
      expect(pin).toBe(SMALL);
      const inputs = await all(used.list(at("t"), { filter: { source: "input" } }));
      expect(inputs.filter(({ config }) => config.configurable!["checkpoint_ns"] === "")).toHaveLength(1);
      expect(inputs.every(({ metadata }) => metadata?.source === "input")).toBe(true);
      const turns = await used.turns.list("t");
      const states = await Promise.all(turns.map((turn) => used.turns.state(turn)));
      expect(states[turns.findIndex(({ nodeName, turnType }) => nodeName === "plan" && turnType === "Thought")]).toMatchObject({
        pin: SMALL,
      });
      expect(JSON.stringify(states)).toContain(`${SECRET} inside`);
    },
  );
  const work = [`work ${SECRET} 1`, `work ${SECRET} 2`];

  test("I7.2 a checkpoint saved again as a copy has the values of the one it copies, the small ones too", async () => {
    const graph = secretGraph(saverOn(tempFile()));
    await graph.invoke(input("ask"), at("t"));
    const [before] = await all(graph.getStateHistory(at("t")));
    await graph.updateState(before!.config, null, "__copy__");
    const [copy] = await all(graph.getStateHistory(at("t")));
    expect(copy!.metadata!.source).toBe("fork");
    expect(copy!.values).toEqual(before!.values);
    expect(copy!.next).toEqual(before!.next);
  });

  test("I7.2 rewind and take back, and the states between are the same", async () => {
    const path = tempFile();
    const saver = saverOn(path);
    const graph = secretGraph(saver);
    await graph.invoke(input("go"), at("t"));
    await graph.invoke(input("go", "two"), at("t"));
    const before = await all(saver.list({ configurable: { thread_id: "t" } }));
    const [first] = await saver.turns.tasks("t");
    const report = await saver.rewind({ threadId: "t", toTask: first!.taskId });
    expect(await all(saver.list({ configurable: { thread_id: "t" } }))).toHaveLength(before.length / 2);
    open.pop()!.close();
    const later = saverOn(path);
    await later.rewinds.takeBack(report.rewindId!);
    expect(await all(later.list({ configurable: { thread_id: "t" } }))).toEqual(before);
    for (const turn of await later.turns.list("t")) await later.turns.state(turn);
  });

  longTest("S1.6 a run that died in another process is resumed at the turn that was interrupted", async () => {
    const path = tempFile();
    expect(await child("die", path)).toEqual({ out: "", signal: "SIGKILL" });
    expect(foundIn(path, SECRET)).toEqual([]);
    const saver = saverOn(path);
    expect((await saver.turns.inFlight("t")).map(({ nodeName }) => nodeName)).toEqual(["ask"]);
    const graph = secretGraph(saver);
    await graph.updateState(at("t"), { mode: "go" }, "sub");
    const { log } = await graph.invoke(null, at("t"));
    expect(log.filter((entry) => entry === "done")).toHaveLength(1);
    expect(log.filter((entry) => entry.startsWith("plan"))).toHaveLength(2);
  });

  test("S2.4 prune takes what is sealed away, and leaves what it keeps readable, copied and rotated", async () => {
    const path = tempFile();
    const saver = saverOn(path);
    const graph = secretGraph(saver);
    for (const text of ["1", "2", "3"]) await graph.invoke(input("go", text), at("t"));
    await graph.updateState(at("t"), { pin: "last" });
    const { values } = await graph.getState(at("t"));
    const report = await saver.prune({ threadId: "t", keepLast: 1 });
    expect(report.checkpoints).toBeGreaterThan(10);
    await saver.copyThread("t", "copy");
    open.pop()!.close();
    const later = saverOn(path, { keys: { default: KEY, next: randomBytes(32) }, current: "next" });
    await rotateKeys(later);
    expect((await secretGraph(later).getState(at("t"))).values).toEqual(values);
    expect((await secretGraph(later).getState(at("copy"))).values).toEqual(values);
    expect((await secretGraph(later).invoke(input("go", "4"), at("copy"))).log.at(-1)).toBe("done");
  });
});

describe("S3.7 a copy of a thread, under keys of its own", () => {
  test("S3.7 has all checkpoints, writes, turns and states of its source, without sharing an address with it", async () => {
    const path = tempFile();
    const saver = saverOn(path);
    const graph = secretGraph(saver);
    for (const text of ["1", "2"]) await graph.invoke(input("go", text), at("t"));
    const [, early] = (await all(graph.getStateHistory(at("t")))).reverse();
    // A fork: a list that branches off another, and a shorter one before it.
    await graph.updateState(early!.config, { messages: [new HumanMessage("fork ".repeat(99))], log: ["fork"] });
    await graph.invoke(null, at("t"));
    await graph.invoke(input("ask", "wait"), at("t"));
    await saver.copyThread("t", "copy");
    await saver.deleteThread("t").then(() => saver.retention.reuseThread("t"));
    open.pop()!.close();
    const later = saverOn(path);
    const tuples = await all(later.list({ configurable: { thread_id: "copy" } }));
    expect(tuples.length).toBeGreaterThan(30);
    const turns = await later.turns.list("copy");
    for (const turn of turns) await later.turns.state(turn);
    expect(turns.length).toBeGreaterThan(40);
    const { log } = await secretGraph(later).invoke(answer, at("copy"));
    expect(log.slice(-2)).toEqual([`answer ${SECRET} yes`, "done"]);
    await later.copyThread("copy", "third");
    expect((await secretGraph(later).getState(at("third"))).values).toEqual(
      (await secretGraph(later).getState(at("copy"))).values,
    );
  });

  test("S3.7 copy and source give the same tuples, and no address stands in both", async () => {
    const path = tempFile();
    const saver = saverOn(path);
    await busyWorld(saver);
    await saver.copyThread("t", "copy");
    const of = async (threadId: string) =>
      JSON.parse(
        JSON.stringify(await all(saver.list({ configurable: { thread_id: threadId } }))).replaceAll('"copy"', '"t"'),
      ) as unknown;
    expect(await of("copy")).toEqual(await of("t"));
    const turns = async (threadId: string) =>
      Promise.all((await saver.turns.list(threadId)).map((turn) => saver.turns.state(turn)));
    expect(plainValues({ turns: await turns("copy") })).toEqual(plainValues({ turns: await turns("t") }));
    const chunks = dump(path)["langgraph_chunks"] as { address: string }[];
    expect(new Set(chunks.map(({ address }) => address)).size).toBe(chunks.length);
  });

  test("S3.7 long lists in all their lengths, and lists that branch off lists that branch off", async () => {
    const path = tempFile();
    const saver = saverOn(path);
    const graph = secretGraph(saver);
    const entries = (count: number, name: string) => Array.from({ length: count }, (_, index) => `${name} ${index} of many`);
    await graph.updateState(at("t"), { log: entries(600, "first") });
    const forked = await graph.updateState(at("t"), { log: entries(300, "second") });
    await graph.updateState(at("t"), { log: entries(5, "third") });
    const again = await graph.updateState(forked, { log: entries(300, "fork") });
    await graph.updateState(at("t"), { log: entries(2, "fork goes on") });
    await graph.updateState(again, { log: entries(300, "fork of the fork") });
    await saver.copyThread("t", "copy");
    const logs = async (threadId: string) =>
      (await all(graph.getStateHistory(at(threadId)))).map((state) => (state.values as { log?: string[] }).log);
    const copied = await logs("copy");
    expect(copied).toEqual(await logs("t"));
    expect(copied.map((log) => log?.length)).toEqual([1500, 1202, 1200, 905, 900, 600]);
    expect((dump(path)["langgraph_lists"] as { base: number | null }[]).filter(({ base }) => base !== null)).toHaveLength(4);
  });

  test("S3.7 data that looks like a reference stays data", async () => {
    const path = tempFile();
    const saver = saverOn(path);
    const graph = secretGraph(saver);
    const long = "long ".repeat(99);
    await graph.invoke(input("go"), at("t"));
    const [chunk] = dump(path)["langgraph_chunks"] as { address: string }[];
    const fake = { "~": "chunk", v: chunk!.address };
    const files = { fake, long, list: [fake, long], text: `{"~":"chunk","v":"${chunk!.address}"}` } as never;
    await graph.updateState(at("t"), { files });
    await saver.copyThread("t", "copy");
    expect((await graph.getState(at("copy"))).values.files).toMatchObject(files);
  });

  test("S3.1 refuses to vouch for what somebody has changed in the source", async () => {
    const changes = [
      "UPDATE langgraph_snapshots SET channels = replace(channels, ',2,', ',2,1') WHERE seq = (SELECT max(seq) FROM langgraph_snapshots)",
      "UPDATE langgraph_items SET chunk = (SELECT min(chunk) FROM langgraph_items)",
      "UPDATE langgraph_checkpoints SET checksum = NULL, node_name = 'other'",
      "DELETE FROM langgraph_chunks WHERE seq = (SELECT min(chunk) FROM langgraph_items)",
    ];
    for (const change of changes) {
      const path = tempFile();
      await secretGraph(saverOn(path)).invoke(input("go"), at("t"));
      open.pop()!.close();
      sqlOn(path, change);
      const saver = saverOn(path);
      expect([change, await codeOf(() => saver.copyThread("t", "copy"))]).toEqual([change, "CHECKPOINT_CORRUPTED"]);
      expect((await saver.listThreads()).map(({ threadId }) => threadId)).toEqual(["t"]);
    }
  });
});

describe("S4.6 opening", () => {
  test("S4.6 every mismatch of file and keys has a name, and changes nothing", async () => {
    const encrypted = tempFile();
    await secretGraph(saverOn(encrypted)).invoke(input("go"), at("t"));
    const plain = tempFile();
    const plainSaver = openSaver(plain, { logger: quiet });
    await secretGraph(plainSaver).invoke(input("go"), at("t"));
    await plainSaver.deleteThread("t");
    plainSaver.close();
    open.pop()!.close();
    const other = randomBytes(32);
    const before = [dump(encrypted), dump(plain)];
    expect(await codeOfOpening(() => openSaver(encrypted))).toBe("ENCRYPTED");
    expect(await codeOfOpening(() => saverOn(encrypted, { key: other }))).toBe("WRONG_KEY");
    expect(await codeOfOpening(() => saverOn(encrypted, { key: other, keyId: "other" }))).toBe("UNKNOWN_KEY");
    expect(await codeOfOpening(() => saverOn(encrypted, { provider: () => { throw new Error("sealed vault"); } }))).toBe("KEY_PROVIDER_FAILED"); // prettier-ignore
    expect(await codeOfOpening(() => saverOn(encrypted, { key: "short" }))).toBe("INVALID_OPTION");
    // What was deleted may still lie about in free pages.
    expect(await codeOfOpening(() => saverOn(plain))).toBe("NOT_ENCRYPTED");
    expect(await codeOf(() => rotateKeys(openSaver(plain, { logger: quiet })))).toBe("NOT_ENCRYPTED");
    expect([dump(encrypted), dump(plain)]).toEqual(before);
    expect((await secretGraph(saverOn(encrypted)).getState(at("t"))).values.pin).toBe(SMALL);
  });

  test("S4.6 a file that was opened without keys before, and never used, may be encrypted; who has it open plain is refused then", async () => {
    const path = tempFile();
    const plain = openSaver(path, { logger: quiet });
    const persister = openPersister(path, ON_POSTGRES ? undefined : new Database(path));
    await secretGraph(saverOn(path)).invoke(input("go"), at("t"));
    expect(await codeOf(() => secretGraph(plain).invoke(input("go"), at("p")))).toBe("ENCRYPTED");
    expect(await codeOf(() => plain.getTuple(at("t")))).toBe("ENCRYPTED");
    expect(await codeOf(() => persister.save(turn("1")))).toBe("ENCRYPTED");
    plain.close();
    expect(foundIn(path, SECRET)).toEqual([]);
  });

  test("S4.6 CheckpointPersister refuses to save into an encrypted file and to read a recorded turn without keys", async () => {
    const path = tempFile();
    const saver = saverOn(path);
    await secretGraph(saver).invoke(input("go"), at("t"));
    const persister = openPersister(path, ON_POSTGRES ? undefined : new Database(path));
    expect(await codeOf(() => persister.save(turn("1")))).toBe("ENCRYPTED");
    expect(await codeOf(() => persister.loadLatest("t"))).toBe("ENCRYPTED");
    expect(await codeOf(() => persister.loadForTask((dump(path)["langgraph_tasks"] as { task_id: string }[])[0]!.task_id))).toBe(
      "ENCRYPTED",
    );
    // A server is asked before anything is looked for.
    expect(await codeOf(() => persister.load("none"))).toBe(ON_POSTGRES ? "ENCRYPTED" : "nothing was thrown");
  });

  test("S4.6 a plain file with rows of CheckpointPersister is not taken for an empty one", async () => {
    const path = tempFile();
    const db = new Database(path);
    await openPersister(path, db).save(turn("1"));
    db.close();
    expect(await codeOfOpening(() => saverOn(path))).toBe("NOT_ENCRYPTED");
  });

  test("S4.6 a state that looks like sealed bytes is a state", async () => {
    const saver = openSaver(":memory:", { logger: quiet });
    open.push(saver);
    const graph = secretGraph(saver);
    await graph.invoke(input("go"), at("t"));
    await graph.updateState(at("t"), { files: { "~": "sealed", v: "AQdkZWZhdWx0", sealed: "AQdkZWZhdWx0" } });
    expect((await graph.getState(at("t"))).values.files).toMatchObject({ sealed: "AQdkZWZhdWx0", "~": "sealed" });
    for (const each of await saver.turns.list("t")) await saver.turns.state(each);
  });

  longTest("S4.6 processes that create one file at once agree on its secret", async () => {
    const path = tempFile();
    const names = ["a", "b", "c"];
    const go = `${path}.go`;
    const runs = names.map((name) => child("create", path, name, go));
    while (!names.every((name) => existsSync(`${path}.${name}`))) await new Promise((resolve) => setTimeout(resolve, 10));
    writeFileSync(go, "");
    expect((await Promise.all(runs)).map(({ out }) => out)).toEqual(["done", "done", "done"]);
    const saver = saverOn(path);
    for (const name of names) expect((await secretGraph(saver).getState(at(name))).values.pin).toBe(SMALL);
    expect(secretsIn(path)).toEqual(["key:default"]);
  });
});

const turn = (id: string) => ({
  id: `00000000-0000-4000-8000-00000000000${id}`,
  graphId: "g",
  nodeName: "n",
  turnType: "Action" as const,
  state: { text: SECRET },
  taskId: "task",
  createdAt: new Date(),
});

describe("S4.6 keys that take time", () => {
  const gate = () => {
    let let_in: (keys: KeySet) => void = () => undefined;
    let refuse: (error: Error) => void = () => undefined;
    const keys = new Promise<KeySet>((resolve, reject) => {
      let_in = resolve;
      refuse = reject;
    });
    const asked: (readonly string[])[] = [];
    const provider = (keyIds: readonly string[]) => {
      asked.push(keyIds);
      return keys;
    };
    return { option: { provider }, asked, grant: () => let_in({ keys: { default: KEY }, current: "default" }), refuse };
  };
  const checkpoint = (id: number, values: Record<string, unknown>) => ({
    ...emptyCheckpoint(),
    id: `1ef4f797-8335-6428-8001-8a1503f9b8${String(id).padStart(2, "0")}`,
    channel_values: values,
    channel_versions: Object.fromEntries(Object.keys(values).map((channel) => [channel, id])),
  });
  const metadata = { source: "loop" as const, step: 1, parents: {} };

  testOfFiles("S4.6 with a key at hand a save has committed when put returns", async () => {
    const path = tempFile();
    const saved = saverOn(path).put(at("t"), checkpoint(1, { a: "x" }), metadata, { a: 1 });
    expect(dump(path)["langgraph_snapshots"]).toHaveLength(1);
    await saved;
    const sync = tempFile();
    void saverOn(sync, { provider: () => ({ keys: { k: KEY }, current: "k" }) }).put(at("t"), checkpoint(1, {}), metadata, {});
    expect(dump(sync)["langgraph_snapshots"]).toHaveLength(1);
  });

  test("S4.6 the saver opens at once, and all that is asked waits in order, with the values of the moment", async () => {
    const path = tempFile();
    const { option, asked, grant } = gate();
    const saver = saverOn(path, option);
    const list = [{ text: "one ".repeat(99) }];
    const order: string[] = [];
    const done = (name: string) => (): void => void order.push(name);
    const first = saver
      .put(at("t"), checkpoint(1, { list, small: list[0] }), metadata, { list: 1, small: 1 })
      .then(done("put 1"));
    const on = { configurable: { thread_id: "t", checkpoint_ns: "", checkpoint_id: checkpoint(1, {}).id } };
    const write = { deep: [{ text: "written ".repeat(50) }] };
    const writes = saver.putWrites(on, [["list", write]], "task").then(done("writes"));
    const between = saver.getTuple({ configurable: { thread_id: "t" } });
    list[0]!.text = "changed meanwhile";
    write.deep[0]!.text = "changed meanwhile";
    await new Promise((resolve) => setImmediate(resolve));
    const second = saver.put(on, checkpoint(2, { list }), metadata, { list: 2 }).then(done("put 2"));
    const listed = all(saver.list({ configurable: { thread_id: "t" } }));
    const reserved = internalsOf(saver).reserve("other");
    await new Promise((resolve) => setTimeout(resolve, 30));
    expect(order).toEqual([]);
    expect(dump(path)["langgraph_snapshots"]).toEqual([]);
    grant();
    await Promise.all([first, writes, second]);
    expect(order).toEqual(["put 1", "writes", "put 2"]);
    expect((await between)!.checkpoint.channel_values).toEqual({
      list: [{ text: "one ".repeat(99) }],
      small: { text: "one ".repeat(99) },
    });
    expect((await between)!.pendingWrites).toEqual([["task", "list", { deep: [{ text: "written ".repeat(50) }] }]]);
    expect(await listed).toHaveLength(2);
    await (
      await reserved
    )();
    expect(asked).toEqual([[]]);
    await saver.put(on, checkpoint(3, {}), metadata, {});
    expect((await saver.getTuple({ configurable: { thread_id: "t" } }))!.checkpoint.id).toBe(checkpoint(3, {}).id);
  });

  test("S4.6 what cannot be saved is named when its turn comes", async () => {
    const { option, grant } = gate();
    const saver = saverOn(tempFile(), option);
    const failures: unknown[] = [];
    saver.events.on("checkpoint_failed", ({ error }) => failures.push(error));
    const saved = codeOf(() => saver.put(at("t"), checkpoint(1, { bad: () => 1 }), metadata, { bad: 1 }));
    const written = codeOf(() =>
      saver.putWrites({ configurable: { ...at("t").configurable, checkpoint_id: "c" } }, [["bad", () => 1]], "n"),
    );
    grant();
    expect([await saved, await written]).toEqual(["UNSERIALIZABLE_VALUE", "UNSERIALIZABLE_VALUE"]);
    expect(String(failures[0])).toContain('channel "bad"');
  });

  test("S4.6 a graph can be run before they are there", async () => {
    const path = tempFile();
    const { option, grant } = gate();
    const running = secretGraph(saverOn(path, option)).invoke(input("go"), at("t"));
    setTimeout(grant, 50);
    expect((await running).log.at(-1)).toBe("done");
    open.pop()!.close();
    const again = gate();
    const saver = saverOn(path, again.option);
    again.grant();
    expect((await secretGraph(saver).getState(at("t"))).values.pin).toBe(SMALL);
    expect(again.asked).toEqual([["default"]]);
    expect((await saver.turns.list("t")).length).toBeGreaterThan(10);
  });

  test("S4.6 if they do not come, everything fails with that, and the saver can be closed", async () => {
    const path = tempFile();
    const { option, refuse } = gate();
    const saver = saverOn(path, option);
    const early = [
      codeOf(() => saver.put(at("t"), checkpoint(1, { a: 1 }), metadata, { a: 1 })),
      codeOf(() => saver.getTuple({ configurable: { thread_id: "t" } })),
    ];
    refuse(new Error("the vault is down"));
    expect(await Promise.all(early)).toEqual(["KEY_PROVIDER_FAILED", "KEY_PROVIDER_FAILED"]);
    const late = [
      () => saver.put(at("t"), checkpoint(1, { a: 1 }), metadata, { a: 1 }),
      () => saver.putWrites({ configurable: { ...at("t").configurable, checkpoint_id: "c" } }, [["a", 1]], "n"),
      () => saver.getTuple({ configurable: { thread_id: "t" } }),
      () => all(saver.list({ configurable: { thread_id: "t" } })),
      () => saver.listThreads(),
      () => saver.turns.list("t"),
      () => saver.deleteThread("t"),
      () => saver.copyThread("t", "u"),
      () => rotateKeys(saver),
      () => secretGraph(saver).invoke(input("go"), at("t")),
    ];
    for (const work of late) expect(await codeOf(work)).toBe("KEY_PROVIDER_FAILED");
    saver.close();
    expect(await codeOf(() => saver.turns.list("t"))).toBe("STORE_CLOSED");
    expect(secretsIn(path)).toEqual([]);
    expect(dump(path)["langgraph_threads"]).toEqual([]);
  });

  testOfFiles("S4.6 S7.1 a new file's secret is never stored in a transaction of the user's, who may roll it back", async () => {
    const path = tempFile();
    const db = new Database(path);
    const { option, grant } = gate();
    const saver = new TurnSaver(db, { logger: quiet, encryption: option, busyTimeoutMs: 2_000 });
    open.push(saver);
    const put = (id: number) => saver.put(at("t"), checkpoint(id, { a: id }), metadata, { a: id });
    db.exec("BEGIN; CREATE TABLE orders (id)");
    grant();
    await expect(put(1)).rejects.toMatchObject({
      code: "STORE_BUSY",
      message: expect.stringContaining("inside a transaction of your own"),
    });
    expect(await codeOf(() => saver.getTuple(at("t")))).toBe("STORE_BUSY");
    const waiting = put(2);
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(db.prepare("SELECT name FROM langgraph_settings WHERE name LIKE 'key:%'").all()).toEqual([]);
    db.exec("ROLLBACK");
    await waiting;
    expect(secretsIn(path)).toEqual(["key:default"]);
    db.exec("BEGIN");
    expect((await saver.getTuple(at("t")))!.checkpoint.channel_values).toEqual({ a: 2 });
    db.exec("ROLLBACK");
    expect((await saverOn(path).getTuple(at("t")))!.checkpoint.channel_values).toEqual({ a: 2 });
    expect((await saver.verify()).problems).toEqual([]);
    saver.close();
    db.close();
  });

  // On a server, close() waits for what was handed in before.
  testOfFiles("S4.6 a saver that is closed before they come saves nothing", async () => {
    const path = tempFile();
    const { option, grant } = gate();
    const saver = saverOn(path, option);
    const saved = codeOf(() => saver.put(at("t"), checkpoint(1, {}), metadata, {}));
    saver.close();
    grant();
    expect(await saved).toBe("STORE_CLOSED");
    expect(dump(path)["langgraph_threads"]).toEqual([]);
  });
});

describe("S3.1 what somebody changes in the file is never taken for what was saved", () => {
  const sealedColumns = [
    ["langgraph_snapshots", "metadata"],
    ["langgraph_chunks", "body"],
    ["langgraph_writes", "entries"],
    ["langgraph_checkpoints", "serialized_state"],
  ] as const;

  /** Reads everything there is on a thread. */
  async function readAll(path: string, threadId = "t"): Promise<unknown> {
    const saver = saverOn(path);
    const tuples = await all(saver.list({ configurable: { thread_id: threadId } }));
    const turns = await saver.turns.list(threadId);
    return plainValues({ tuples, states: await Promise.all(turns.map((each) => saver.turns.state(each))) });
  }

  const refusals = ["CHECKPOINT_CORRUPTED", "NOT_ENCRYPTED", "UNKNOWN_KEY"];
  let path: string;
  let db: Database.Database;
  beforeEach(async () => {
    path = tempFile();
    const saver = saverOn(path);
    const graph = secretGraph(saver);
    for (const threadId of ["t", "u"]) {
      await graph.invoke(input("ask"), at(threadId));
      await graph.invoke(answer, at(threadId));
    }
    saver.close();
    db = new Database(path);
  });
  afterEach(() => db.close());

  /** Makes a change, reads everything, and undoes it. */
  async function afterChange(change: () => void): Promise<string> {
    const copy = `${path}.copy${(copies += 1)}`;
    db.prepare("VACUUM INTO ?").run(copy);
    const original = db;
    db = new Database(copy);
    change();
    db.close();
    db = original;
    return codeOf(() => readAll(copy));
  }
  let copies = 0;

  /** Without the chunks that superseded writes alone refer to: those wait for a rewind, and nobody reads them before. */
  async function thoseRead<T extends { at: number }>(chunks: readonly T[]): Promise<T[]> {
    const read: T[] = [];
    for (const chunk of chunks) {
      const code = await afterChange(() => db.prepare("DELETE FROM langgraph_chunks WHERE seq = ?").run(chunk.at));
      if (code !== "nothing was thrown") read.push(chunk);
    }
    expect(read.length).toBeGreaterThan(chunks.length - 3);
    return read;
  }

  test.each(sealedColumns)("S3.1 a flipped bit in %s.%s: key id, nonce, contents, tag", async (table, column) => {
    const all = db.prepare(`SELECT seq AS at, ${column} AS sealed FROM ${table} WHERE thread = (SELECT min(thread) FROM langgraph_threads) ORDER BY seq`).all() as { at: number; sealed: unknown }[]; // prettier-ignore
    const rows = table === "langgraph_chunks" ? await thoseRead(all) : all;
    for (const place of [0, 1, 4, 10, 16, 30, -20, -1]) {
      const row = rows[(place + 40) % rows.length]!;
      const code = await afterChange(() =>
        db.prepare(`UPDATE ${table} SET ${column} = ? WHERE seq = ?`).run(flip(row.sealed, place), row.at),
      );
      expect([place, refusals.includes(code), code]).toEqual([place, true, code]);
    }
    const plain = await afterChange(() => db.prepare(`UPDATE ${table} SET ${column} = ? WHERE seq = ?`).run("{}", rows[0]!.at));
    expect(plain).toBe("NOT_ENCRYPTED");
  });

  test.each(sealedColumns)("S3.1 two rows of one thread exchange what is in %s.%s", async (table, column) => {
    const rows = db.prepare(`SELECT seq AS at, ${column} AS sealed FROM ${table} WHERE thread = (SELECT min(thread) FROM langgraph_threads) ORDER BY seq`).all() as { at: number; sealed: unknown }[]; // prettier-ignore
    for (const [one, two] of [
      [0, 1],
      [rows.length - 1, 0],
    ] as const) {
      // prettier-ignore
      const code = await afterChange(() => {
        const set = db.prepare(`UPDATE ${table} SET ${column} = ? WHERE seq = ?`);
        set.run(rows[one]!.sealed, rows[two]!.at);
        set.run(rows[two]!.sealed, rows[one]!.at);
      });
      expect(code).toBe("CHECKPOINT_CORRUPTED");
    }
  });

  test.each(sealedColumns)("S3.1 a row of %s moved from another thread, with %s and all", async (table) => {
    const code = await afterChange(() => {
      const [t, u] = ["t", "u"].map((id) =>
        db.prepare("SELECT thread FROM langgraph_threads WHERE thread_id = ?").pluck().get(id),
      );
      if (table === "langgraph_chunks") {
        // Under an address that the thread reads.
        const from = db.prepare("SELECT body FROM langgraph_chunks WHERE thread = ? ORDER BY seq").pluck().get(u);
        db.prepare(
          "UPDATE langgraph_chunks SET body = ? WHERE seq = (SELECT min(seq) FROM langgraph_chunks WHERE thread = ?)",
        ).run(from, t);
      } else {
        if (table === "langgraph_writes") {
          const checkpoint = db.prepare("SELECT checkpoint_id, checkpoint_ns FROM langgraph_writes WHERE thread = ? LIMIT 1").get(t) as { checkpoint_id: string; checkpoint_ns: string }; // prettier-ignore
          db.prepare("UPDATE langgraph_writes SET checkpoint_id = ?, checkpoint_ns = ? WHERE thread = ?").run(checkpoint.checkpoint_id, checkpoint.checkpoint_ns, u); // prettier-ignore
        }
        if (table === "langgraph_snapshots") {
          // Into the numbers of the other thread, behind its own, or nobody who asks for that thread's checkpoints comes by.
          const by = (Number(t) - Number(u)) * SPAN + 1_000_000;
          db.prepare(`UPDATE ${table} SET seq = seq + ?, position = position + ?, superseded_by = superseded_by + ? WHERE thread = ?`).run(BigInt(by), BigInt(by), BigInt(by), u); // prettier-ignore
        }
        db.prepare(`UPDATE ${table} SET thread = ? WHERE thread = ?`).run(t, u);
      }
    });
    expect(code).toBe("CHECKPOINT_CORRUPTED");
  });

  test("S3.1 checkpoints that say they are another thread's: that thread gains none, and verify() finds them", async () => {
    const listed = async (file: string, id: string): Promise<unknown[]> => {
      const tuples = await all(saverOn(file).list({ configurable: { thread_id: id } }));
      return (plainValues({ tuples }) as { tuples: unknown[] }).tuples;
    };
    const wanted = { t: await listed(path, "t"), u: await listed(path, "u") };
    expect(wanted.u.length).toBeGreaterThan(3);
    const copy = `${path}.moved`;
    db.prepare("VACUUM INTO ?").run(copy);
    sqlOn(copy, "UPDATE langgraph_snapshots SET thread = (SELECT sum(thread) FROM langgraph_threads) - thread WHERE seq % 3 = 0");
    for (const id of ["t", "u"] as const) {
      const found = await listed(copy, id).catch((error: unknown) => {
        expect(error).toMatchObject({ code: "CHECKPOINT_CORRUPTED" });
        return [];
      });
      for (const tuple of found) expect(wanted[id]).toContainEqual(tuple);
    }
    const { ok, problems } = await saverOn(copy).verify();
    expect([ok, problems.some(({ table }) => table === "langgraph_snapshots")]).toEqual([false, true]);
  });

  test("S3.1 an older, superseded version of a row put in the place of the newer one", async () => {
    for (const [table, column] of [
      ["langgraph_snapshots", "metadata"],
      ["langgraph_writes", "entries"],
    ] as const) {
      // prettier-ignore
      const copy = tempFile();
      const saver = saverOn(copy);
      const on = { configurable: { thread_id: "t", checkpoint_ns: "", checkpoint_id: "1ef4f797-8335-6428-8001-8a1503f9b801" } };
      const checkpoint = { ...emptyCheckpoint(), id: on.configurable.checkpoint_id };
      for (const round of [1, 2]) {
        await saver.put(at("t"), checkpoint, { source: "loop", step: 1, parents: {}, round } as never, {});
        await saver.putWrites(on, [["a", round]], "task");
      }
      saver.close();
      const other = new Database(copy);
      const [older, newer] = other.prepare(`SELECT * FROM ${table} ORDER BY seq`).all() as Record<string, unknown>[];
      expect(older!["superseded_by"]).toBe(newer!["seq"]);
      // Contents and checksum of the older one.
      other
        .prepare(`UPDATE ${table} SET ${column} = ?, checksum = ? WHERE seq = ?`)
        .run(older![column], older!["checksum"], newer!["seq"]);
      other.close();
      expect(await codeOf(() => readAll(copy))).toBe("CHECKPOINT_CORRUPTED");
    }
  });

  test("S3.1 columns that stay readable cannot be changed either", async () => {
    const newest = "WHERE seq = (SELECT max(seq) FROM langgraph_snapshots WHERE thread = (SELECT min(thread) FROM langgraph_threads) AND checkpoint_ns = '')"; // prettier-ignore
    const changes = [
      `UPDATE langgraph_snapshots SET body = '{"v":4,"ts":"","versions_seen":{}}' ${newest}`,
      `UPDATE langgraph_snapshots SET channels = '{}' ${newest}`,
      `UPDATE langgraph_snapshots SET parent_checkpoint_id = NULL ${newest}`,
      `UPDATE langgraph_snapshots SET channels = replace(channels, '"pin":', '"pin":[9,0,"other"],"was":') ${newest}`,
      "UPDATE langgraph_checkpoints SET node_name = 'other'",
      "UPDATE langgraph_checkpoints SET node_name = 'other', checksum = NULL",
      "UPDATE langgraph_items SET chunk = (SELECT max(chunk) FROM langgraph_items) WHERE pos = 0",
      "DELETE FROM langgraph_items WHERE pos = 0",
    ];
    for (const change of changes) {
      const code = await afterChange(() => db.exec(change));
      expect([change, code]).toEqual([change, "CHECKPOINT_CORRUPTED"]);
    }
    expect(await afterChange(() => undefined)).toBe("nothing was thrown");
  });
});

describe("S4.6 rotation", () => {
  const [first, second, third] = [randomBytes(32), randomBytes(32), randomBytes(32)];
  const keyIdsIn = (path: string): Set<string> => {
    const ids = new Set<string>();
    const look = (value: unknown): void => {
      if (Buffer.isBuffer(value)) ids.add(value.toString("latin1", 2, 2 + value[1]!));
      else if (typeof value === "string" && value.startsWith('{"~":"sealed"')) {
        look(Buffer.from((JSON.parse(value) as { v: string }).v, "base64"));
      }
    };
    for (const [table, rows] of Object.entries(dump(path))) {
      for (const row of rows as Record<string, unknown>[]) {
        for (const value of Object.values(row)) look(value);
        if (table !== "langgraph_archive") continue;
        for (const value of Object.values(JSON.parse(row["row"] as string) as Record<string, { hex: string } | null>)) {
          look(typeof value === "object" && value !== null ? Buffer.from(value.hex, "hex") : value);
        }
      }
    }
    return ids;
  };

  test("S4.6 after it the old key opens nothing and is not needed; what was saved, and archived, is the same", async () => {
    const path = tempFile();
    const old = saverOn(path, { key: first, keyId: "2024" });
    await busyWorld(old);
    const before = await all(old.list({ configurable: { thread_id: "t" } }));
    old.close();
    const both = saverOn(path, { keys: { "2024": first, "2025-longer": second }, current: "2025-longer" });
    await secretGraph(both).invoke(input("go", "new"), at("v"));
    expect(keyIdsIn(path)).toEqual(new Set(["2024", "2025-longer"]));
    const report = await rotateKeys(both);
    expect(report.keyId).toBe("2025-longer");
    expect(report.retired).toBe(1);
    for (const count of Object.values(report.resealed)) expect(count).toBeGreaterThan(0);
    expect(keyIdsIn(path)).toEqual(new Set(["2025-longer"]));
    expect(Object.values((await rotateKeys(both)).resealed)).toEqual([0, 0, 0, 0, 0, 0, 0]);
    both.close();
    expect(await codeOfOpening(() => saverOn(path, { key: first, keyId: "2024" }))).toBe("UNKNOWN_KEY");
    const now = saverOn(path, { key: second, keyId: "2025-longer" });
    expect(await all(now.list({ configurable: { thread_id: "t" } }))).toEqual(before);
    for (const threadId of ["t", "u", "v"]) for (const each of await now.turns.list(threadId)) await now.turns.state(each);
    const graph = secretGraph(now);
    expect((await graph.invoke(answer, at("u"))).log.at(-1)).toBe("done");
  });

  test("S4.6 a rewind from before it can be taken back after it", async () => {
    const path = tempFile();
    const old = saverOn(path, { key: first, keyId: "1" });
    const graph = secretGraph(old);
    await graph.invoke(input("go"), at("t"));
    await graph.invoke(input("go"), at("t"));
    const before = await all(old.list({ configurable: { thread_id: "t" } }));
    const [task] = await old.turns.tasks("t");
    const { rewindId } = await old.rewind({ threadId: "t", toTask: task!.taskId });
    old.close();
    await rotateKeys(saverOn(path, { keys: { 1: first, 2: second }, current: "2" }));
    const now = saverOn(path, { key: second, keyId: "2" });
    await now.rewinds.takeBack(rewindId!);
    expect(await all(now.list({ configurable: { thread_id: "t" } }))).toEqual(before);
    for (const each of await now.turns.list("t")) await now.turns.state(each);
  });

  test("S4.6 a process that still seals under a retired key is refused, and what it saved before is not lost", async () => {
    const path = tempFile();
    const stale = saverOn(path, { key: first, keyId: "1" });
    await secretGraph(stale).invoke(input("go"), at("t"));
    const rotating = saverOn(path, { keys: { 1: first, 2: second }, current: "2" });
    await secretGraph(stale).invoke(input("go", "late"), at("late"));
    await rotateKeys(rotating);
    expect(await codeOf(() => secretGraph(stale).invoke(input("go"), at("later")))).toBe("UNKNOWN_KEY");
    const now = saverOn(path, { key: second, keyId: "2" });
    expect((await secretGraph(now).getState(at("late"))).values.pin).toBe(SMALL);
    const next = saverOn(path, { keys: { 2: second, 3: third }, current: "3" });
    expect((await rotateKeys(next)).retired).toBe(1);
    expect(keyIdsIn(path)).toEqual(new Set(["3"]));
  });

  longTest("S4.6 interrupted, it continues where it was; a row that does not open keeps the old key", async () => {
    const path = tempFile();
    const old = saverOn(path, { key: first, keyId: "1" });
    for (let index = 0; index < 12; index += 1) await secretGraph(old).invoke(input("go", String(index)), at(`t${index}`));
    old.close();
    const both = () => saverOn(path, { keys: { 1: first, 2: second }, current: "2" });
    const damaged = new Database(path);
    const row = damaged.prepare("SELECT seq, body FROM langgraph_chunks ORDER BY seq DESC LIMIT 1").get() as {
      seq: number;
      body: Buffer;
    };
    const bad = Buffer.from(row.body);
    bad[bad.length - 1]! ^= 1;
    damaged.prepare("UPDATE langgraph_chunks SET body = ? WHERE seq = ?").run(bad, row.seq);
    const again = both();
    expect(await codeOf(() => rotateKeys(again))).toBe("CHECKPOINT_CORRUPTED");
    expect(secretsIn(path)).toEqual(["key:1", "key:2"]);
    damaged.prepare("UPDATE langgraph_chunks SET body = ? WHERE seq = ?").run(row.body, row.seq);
    damaged.close();
    again.close();
    const interrupted = both();
    const stopped = codeOf(() => rotateKeys(interrupted));
    interrupted.close();
    expect(await stopped).toBe("STORE_CLOSED");
    expect((await rotateKeys(both())).retired).toBe(1);
    expect(keyIdsIn(path)).toEqual(new Set(["2"]));
  });
});
