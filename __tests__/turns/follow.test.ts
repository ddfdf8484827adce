import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { type Change, effect, GraphRunner, type TurnSaver } from "../../src/index";
import { CHILD_ENV, childProgram } from "../support/child-program";
import { runs } from "../support/lane";
import { laneTest, longTest } from "../support/lane-test";
import { openSaver } from "../support/open-saver";
import { tempFile } from "../support/temp";

const CHILD = join(__dirname, "follow-child.ts");
const quiet = { debug() {}, info() {}, warn() {}, error() {} };
const open = (path: string): TurnSaver => openSaver(path, { logger: quiet });
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

function start(path: string, threadId: string, steps: number): { process: ChildProcess; ended: Promise<string | null> } {
  const child = spawn(process.execPath, [...childProgram(CHILD), path, threadId, String(steps)], { env: CHILD_ENV });
  let err = "";
  child.stderr.on("data", (chunk) => (err += String(chunk)));
  const ended = new Promise<string | null>((resolve, reject) =>
    child.on("close", (code, signal) => (code === 0 || signal === "SIGKILL" ? resolve(signal) : reject(new Error(err)))),
  );
  return { process: child, ended };
}

/** What a follower knows of a thread by its changes alone. It refuses what comes twice or out of order. */
class Mirror {
  readonly turns = new Map<string, Extract<Change, { kind: "turn" }>>();
  readonly checkpoints = new Map<number, string>();
  readonly effects = new Map<string, Extract<Change, { kind: "effect" }>>();
  readonly told: string[] = [];
  #newest = 0;

  take(change: Change): void {
    const { kind, seq } = change;
    this.told.push("what" in change ? `${kind} ${change.what}` : kind);
    const isNew = seq > this.#newest;
    this.#newest = Math.max(this.#newest, seq);
    if (kind === "turn") {
      const known = this.turns.get(change.id);
      if (known === undefined ? !isNew : known.durable || !change.durable) throw new Error(`twice or late: ${described(change)}`);
      this.turns.set(change.id, change);
    } else if (kind === "checkpoint") {
      if (!isNew) throw new Error(`twice or late: ${described(change)}`);
      this.checkpoints.set(seq, change.checkpointId);
    } else if (kind === "effect") {
      const known = this.effects.get(change.id);
      if (known === undefined ? !isNew : known.what === change.what && known.tries === change.tries)
        throw new Error(`twice or late: ${described(change)}`);
      this.effects.set(change.id, change);
    } else if (kind === "rewind" && change.what === "done") {
      for (const [id, turn] of this.turns) if (turn.seq > change.targetSeq) this.turns.delete(id);
      for (const [id, done] of this.effects) if (done.seq > change.targetSeq) this.effects.delete(id);
      for (const at of this.checkpoints.keys()) if (at > change.targetSeq) this.checkpoints.delete(at);
    } else if (kind === "deleted") {
      for (const rows of [this.turns, this.effects, this.checkpoints]) rows.clear();
      this.#newest = 0;
    }
  }

  get rows(): object {
    return {
      turns: [...this.turns.values()].map(({ id, seq, durable }) => ({ id, seq, durable })),
      checkpoints: [...new Set(this.checkpoints.values())],
      effects: [...this.effects.values()].map(({ id, what }) => ({ id, what })),
    };
  }
}

function described(change: Change): string {
  return JSON.stringify(change);
}

async function rowsOf(saver: TurnSaver, threadId: string): Promise<object> {
  const turns = await saver.turns.list(threadId);
  const effects = await saver.effects.list(threadId);
  const checkpoints: string[] = [];
  for await (const { checkpoint } of saver.list({ configurable: { thread_id: threadId } })) checkpoints.unshift(checkpoint.id);
  return {
    turns: turns.map(({ id, seq, durable }) => ({ id, seq, durable })),
    checkpoints,
    effects: effects.map(({ id, status }) => ({ id, what: status })),
  };
}

/** Takes what there is to take, until `isEnough`; returns where to continue. */
async function takeUntil(
  saver: TurnSaver,
  given: { threadId?: string | string[]; after?: string | undefined; from?: "now" | "start" | number },
  take: (change: Change, count: number) => boolean,
): Promise<string | undefined> {
  const changes = saver.follow(given);
  let count = 0;
  for await (const change of changes) if (take(change, (count += 1))) break;
  return changes.cursor;
}

const State = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }) });
function graphOn(saver: TurnSaver, body: () => Promise<unknown> = async () => undefined): GraphRunner<any> {
  const graph = new StateGraph(State)
    .addNode("a", async () => {
      await body();
      return { log: ["a"] };
    })
    .addEdge(START, "a")
    .compile({ checkpointer: saver });
  return new GraphRunner(graph, { nodes: { a: { idempotent: true } } });
}

laneTest(
  "S10.4 a follower of a killed and resumed writer is told everything once, over its own reconnects",
  async () => {
    const steps = 15;
    for (let round = 0; round < runs(1, 20); round += 1) {
      const path = tempFile();
      const setting = open(path);
      await setting.setup();
      const mirror = new Mirror();
      let isOver = false;
      const writing = (async () => {
        for (let kills = 0; ; kills += 1) {
          const { process: child, ended } = start(path, "t", steps);
          const killer = setTimeout(() => child.kill("SIGKILL"), kills < 3 ? 300 + Math.random() * 500 : 60_000);
          const signal = await ended;
          clearTimeout(killer);
          if (signal === null) break;
        }
        isOver = true;
      })();
      let cursor: string | undefined;
      const expected = async (): Promise<string> => JSON.stringify(await rowsOf(setting, "t"));
      while (!isOver || JSON.stringify(mirror.rows) !== (await expected())) {
        const saver = open(path);
        const stop = new AbortController();
        const changes = saver.follow({
          threadId: "t",
          ...(cursor === undefined ? { from: "start" } : { after: cursor }),
          signal: stop.signal,
        });
        const limit = 1 + Math.floor(Math.random() * 15);
        const timer = setTimeout(() => stop.abort(), 1_500);
        let count = 0;
        for await (const change of changes) {
          mirror.take(change);
          if ((count += 1) === limit) break;
        }
        clearTimeout(timer);
        cursor = changes.cursor;
        await (saver.close() as unknown as Promise<void>);
      }
      await writing;
      expect(mirror.rows).toEqual(await rowsOf(setting, "t"));
      expect(mirror.turns.size).toBeGreaterThanOrEqual(2 * steps);
      await (setting.close() as unknown as Promise<void>);
    }
  },
  300_000,
);

longTest("S10.4 followers of all threads are told of each, also of those that begin later", async () => {
  const path = tempFile();
  const saver = open(path);
  await graphOn(saver).invoke({ log: ["in"] }, { threadId: "before" });
  const stop = new AbortController();
  const changes = saver.follow({ signal: stop.signal });
  await changes.ready;
  const mirrors = new Map<string, Mirror>();
  const following = (async () => {
    for await (const change of changes) {
      const mirror = mirrors.get(change.threadId) ?? new Mirror();
      mirrors.set(change.threadId, mirror);
      mirror.take(change);
    }
  })();
  const children = ["one", "two", "three"].map((threadId) => start(path, threadId, 5));
  await Promise.all(children.map(({ ended }) => ended));
  for (const threadId of ["one", "two", "three"]) {
    const rows = await rowsOf(saver, threadId);
    while (JSON.stringify(mirrors.get(threadId)?.rows) !== JSON.stringify(rows)) await pause(20);
  }
  stop.abort();
  await following;
  expect([...mirrors.keys()].sort()).toEqual(["one", "three", "two"]);
  await (saver.close() as unknown as Promise<void>);
});

test("S10.4 an effect that was begun before is told when it is done, and an Action when it is settled", async () => {
  const path = tempFile();
  const [writer, reader] = [open(path), open(path)];
  let finish = (): void => undefined;
  const finished = new Promise<void>((resolve) => (finish = resolve));
  let begun = (): void => undefined;
  const isBegun = new Promise<void>((resolve) => (begun = resolve));
  const running = graphOn(writer, () =>
    effect("mail", async () => {
      begun();
      await finished;
    }),
  ).invoke({ log: ["in"] }, { threadId: "t" });
  await isBegun;
  const told: string[] = [];
  const changes = reader.follow({ threadId: "t" });
  await changes.ready;
  const following = takeOf(changes, (change) => {
    told.push(lineOf(change));
    return change.kind === "checkpoint";
  });
  const fromStart: string[] = [];
  await takeUntil(reader, { threadId: "t", from: "start" }, (change) => {
    fromStart.push(lineOf(change));
    return change.kind === "effect";
  });
  finish();
  await running;
  await following;
  expect(fromStart).toEqual(["checkpoint -1", "checkpoint 0", "Thought a", "effect begun mail"]);
  expect(told).toEqual(["effect done mail", "Action a ok", "checkpoint 1"]);
  await Promise.all([writer, reader].map((saver) => saver.close() as unknown as Promise<void>));
});

async function takeOf(changes: AsyncIterable<Change>, take: (change: Change) => boolean): Promise<void> {
  for await (const change of changes) if (take(change)) break;
}

function lineOf(change: Change): string {
  if (change.kind === "turn")
    return `${change.turnType} ${change.nodeName}${change.status === undefined ? "" : ` ${change.status}`}`;
  if (change.kind === "checkpoint") return `checkpoint ${change.step}`;
  if (change.kind === "effect") return `effect ${change.what} ${change.name}`;
  return "what" in change ? `${change.kind} ${change.what}` : change.kind;
}

test("S10.4 rewind, taking it back, prune, deletion and a new thread of the same id are told as such, while following and afterwards", async () => {
  const path = tempFile();
  const [writer, reader] = [open(path), open(path)];
  const runner = graphOn(writer);
  const stop = new AbortController();
  const live: string[] = [];
  const following = takeOf(reader.follow({ threadId: "t", signal: stop.signal }), (change) => {
    live.push(lineOf(change));
    return false;
  });
  const until = async (line: string, times = 1): Promise<void> => {
    while (live.filter((told) => told === line).length < times) await pause(20);
  };
  for (const taskId of ["one", "two", "three"]) await runner.invoke({ log: [taskId] }, { threadId: "t", taskId });
  await until("checkpoint 7");
  const rewound = await writer.rewind({ threadId: "t", toTask: "two" });
  await until("rewind done");
  const middle = await takeUntil(reader, { threadId: "t", from: "start" }, (change) => change.kind === "rewind");
  await writer.rewinds.takeBack(rewound.rewindId!);
  await until("rewind taken-back");
  await writer.prune({ threadId: "t", keepLast: 1 });
  await until("pruned");
  await writer.deleteThread("t");
  await until("deleted");
  await runner.invoke({ log: ["again"] }, { threadId: "t", taskId: "again" });
  await until("checkpoint 1", 2);
  stop.abort();
  await following;
  const after = live.lastIndexOf("deleted");
  expect(live.slice(0, after).filter((line) => /rewind|pruned|deleted/.test(line))).toEqual([
    "rewind done",
    "rewind taken-back",
    "pruned",
  ]);
  expect(live.slice(after)).toEqual(["deleted", "checkpoint -1", "checkpoint 0", "Thought a", "Action a ok", "checkpoint 1"]);

  // Somebody who wasn't there is told of what is left.
  const later: string[] = [];
  await takeUntil(reader, { threadId: "t", after: middle }, (change) => {
    later.push(lineOf(change));
    return later.includes("deleted") && lineOf(change) === "checkpoint 1";
  });
  expect(later).toEqual(["deleted", "checkpoint -1", "checkpoint 0", "Thought a", "Action a ok", "checkpoint 1"]);
  expect(middle).toBeDefined();
  await Promise.all([writer, reader].map((saver) => saver.close() as unknown as Promise<void>));
});

test("S10.4 a cursor from before a rewind, its take-back and a prune is told of all three, and of nothing twice", async () => {
  const path = tempFile();
  const saver = open(path);
  const runner = graphOn(saver);
  for (const taskId of ["one", "two", "three"]) await runner.invoke({ log: [taskId] }, { threadId: "t", taskId });
  const { length } = (await saver.turns.list("t")) as unknown[];
  const cursor = await takeUntil(saver, { threadId: "t", from: "start" }, (change) => lineOf(change) === "checkpoint 7");
  const { rewindId } = await saver.rewind({ threadId: "t", toTask: "one" });
  await saver.rewinds.takeBack(rewindId!);
  await saver.prune({ threadId: "t", keepTasks: 2 });
  await runner.invoke({ log: ["four"] }, { threadId: "t", taskId: "four" });
  const told: string[] = [];
  const end = await takeUntil(saver, { threadId: "t", after: cursor }, (change) => {
    told.push(lineOf(change));
    return told.at(-1) === "checkpoint 10";
  });
  expect(length).toBe(6);
  expect(told).toEqual([
    "pruned",
    "rewind done",
    "rewind taken-back",
    ...["checkpoint 8", "checkpoint 9", "Thought a", "Action a ok", "checkpoint 10"],
  ]);
  const stop = new AbortController();
  setTimeout(() => stop.abort(), 300);
  const more: Change[] = [];
  for await (const change of saver.follow({ threadId: "t", after: end, signal: stop.signal })) more.push(change);
  expect(more).toEqual([]);
  await (saver.close() as unknown as Promise<void>);
});

test("S10.4 more than is read at once comes whole, of several threads, and from a row's seq on", async () => {
  const path = tempFile();
  const saver = open(path);
  for (const threadId of ["t", "u"]) {
    for (let count = 0; count < 180; count += 1) {
      const id = `1f0${String(count).padStart(5, "0")}-0000-6000-8000-000000000000`;
      const checkpoint = { v: 4, id, ts: new Date().toISOString(), channel_values: {}, channel_versions: {}, versions_seen: {} };
      const metadata = { source: "input", step: count - 1, parents: {} } as const;
      await saver.put({ configurable: { thread_id: threadId, checkpoint_ns: "" } }, checkpoint, metadata, {});
    }
  }
  const rows = new Map<string, Mirror>([
    ["t", new Mirror()],
    ["u", new Mirror()],
  ]);
  let checkpoints = 0;
  await takeUntil(saver, { threadId: ["t", "u"], from: "start" }, (change) => {
    rows.get(change.threadId)?.take(change);
    return change.kind === "checkpoint" && (checkpoints += 1) === 360;
  });
  const expected = (await rowsOf(saver, "u")) as { checkpoints: string[] };
  expect(rows.get("u")?.rows).toMatchObject({ checkpoints: expected.checkpoints });
  const seqs: number[] = [];
  const [first] = [...(rows.get("u")?.checkpoints.keys() ?? [])].slice(-10);
  await takeUntil(saver, { threadId: "u", from: first ?? 0 }, ({ seq }) => seqs.push(seq) === 9);
  expect(seqs).toEqual([...(rows.get("u")?.checkpoints.keys() ?? [])].slice(-9));
  await (saver.close() as unknown as Promise<void>);
});

test("S10.4 a signal and closing the saver end the loop; bad options are refused", async () => {
  const saver = open(tempFile());
  await saver.setup();
  const stop = new AbortController();
  setTimeout(() => stop.abort(), 50);
  for await (const _ of saver.follow({ signal: stop.signal })) throw new Error("nothing was saved");
  for await (const _ of saver.follow({ signal: AbortSignal.abort() })) throw new Error("it is over");
  for (const wrong of [{ after: "nonsense" }, { threadId: "" }, { threadId: [] }, { from: 3 }, { form: "now" }, { signal: {} }]) {
    expect(() => saver.follow(wrong as never)).toThrow(expect.objectContaining({ code: "INVALID_OPTION" }));
  }
  const changes = saver.follow();
  const over = changes.next();
  setTimeout(() => void saver.close(), 50);
  expect(await over).toEqual({ done: true, value: undefined });
});
