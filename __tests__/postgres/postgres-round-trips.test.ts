import { Annotation, END, interrupt, START, StateGraph } from "@langchain/langgraph";
import { emptyCheckpoint } from "@langchain/langgraph-checkpoint";
import { type DefinedEffect, defineEffect, GraphRunner } from "langgraph-checkpoint-turns";
import { PostgresTurnSaver } from "langgraph-checkpoint-turns/postgres";
import { pgTransactions } from "langgraph-checkpoint-turns/transactions";
import { Pool } from "pg";
import { listThreads } from "../../src/testing-internal";
import { schemaAt } from "../support/open-saver";
import { startPgBouncer } from "../support/postgres/pgbouncer";
import { PostgresProxy } from "../support/postgres/proxy";
import { quiet } from "../support/s1-tools";

const STEPS = 12;
/** Where the machine is busy, a run lasts long enough for heartbeats. They are no more than so many round trips per step. */
const BEATS = 0.5;
const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (left, right) => [...left, ...right], default: () => [] }),
});

function attached(saver: PostgresTurnSaver, work?: (name: string) => unknown) {
  const builder = new StateGraph(State) as unknown as StateGraph<typeof State, typeof State.State, typeof State.Update, string>;
  const names = Array.from({ length: STEPS }, (_, step) => `step ${step}`);
  const node = async (name: string) => {
    await work?.(name);
    return { log: [name] };
  };
  for (const name of names) builder.addNode(name, () => node(name));
  for (const [at, name] of [START, ...names].entries()) builder.addEdge(name, names[at] ?? END);
  return saver.attach(builder.compile({ checkpointer: saver }));
}

/** All that was sent is counted. */
async function quietTail(proxy: PostgresProxy): Promise<void> {
  for (let before = -1; before !== proxy.roundTrips;) {
    before = proxy.roundTrips;
    await new Promise((done) => setTimeout(done, 100));
  }
}

/** Nothing more is on its way: not even a COMMIT that nobody waits for. */
async function quietProxy(proxy: PostgresProxy): Promise<void> {
  await quietTail(proxy);
  proxy.reset();
}

async function tripsOf(proxy: PostgresProxy, graph: ReturnType<typeof attached>, threadId: string): Promise<number> {
  proxy.delay = { toServer: 3, toClient: 3 };
  await quietProxy(proxy);
  await graph.invoke({ log: ["in"] }, { configurable: { thread_id: threadId }, recursionLimit: 50 });
  return proxy.roundTrips / STEPS;
}

test.each(["the server", "PgBouncer"])(
  "S9.2 a whole run of an attached graph costs at most 1.3 round trips per step, with %s",
  async (where) => {
    const direct = process.env["TURNS_PG_DIRECT_URL"]!;
    const pooler = where === "PgBouncer" ? await startPgBouncer(direct, { poolSize: 3 }) : undefined;
    const proxy = await PostgresProxy.inFrontOf(pooler?.url ?? direct);
    const options = { schema: schemaAt(`round trips ${where}`), logger: quiet };
    try {
      const saver = PostgresTurnSaver.fromConnString(proxy.url, options);
      const graph = attached(saver);
      await tripsOf(proxy, graph, "the first of the process");
      for (const thread of ["new", "new", "other", "new"]) expect(await tripsOf(proxy, graph, thread)).toBeLessThanOrEqual(1.3);
      expect(await saver.verify()).toMatchObject({ ok: true, checked: { turns: 2 * STEPS * 5 } });
      await saver.close();
      // A process that has never seen the thread reads its lists too, and where they end.
      const other = PostgresTurnSaver.fromConnString(proxy.url, options);
      const again = attached(other);
      await tripsOf(proxy, again, "the first of the process");
      expect(await tripsOf(proxy, again, "new")).toBeLessThanOrEqual(1.7);
      await other.close();
    } finally {
      await proxy.close();
      await pooler?.stop();
    }
  },
  300_000,
);

test("S9.2 reading a page, a checkpoint, a state or a status costs few round trips", async () => {
  const proxy = await PostgresProxy.inFrontOf(process.env["TURNS_PG_DIRECT_URL"]!);
  const options = { schema: schemaAt("round trips of reads"), logger: quiet };
  const config = { configurable: { thread_id: "t" } };
  try {
    const first = PostgresTurnSaver.fromConnString(proxy.url, options);
    const graph = attached(first);
    for (let run = 0; run < 3; run += 1) await graph.invoke({ log: ["in"] }, { ...config, recursionLimit: 50 });
    await first.close();
    proxy.delay = { toServer: 3, toClient: 3 };
    /** Of a process that has read nothing of the thread yet. */
    const trips = async (work: (saver: PostgresTurnSaver, graph: ReturnType<typeof attached>) => Promise<unknown>) => {
      const saver = PostgresTurnSaver.fromConnString(proxy.url, options);
      const again = attached(saver);
      await saver.getTuple({ configurable: { thread_id: "none" } });
      await quietProxy(proxy);
      await work(saver, again);
      await quietTail(proxy);
      const counted = proxy.roundTrips;
      await saver.close();
      return counted;
    };
    const found = {
      getTuple: await trips((saver) => saver.getTuple(config)),
      getState: await trips((_, again) => again.getState(config)),
      list: await trips(async (saver) => expect(await all(saver.list(config, { limit: 20 }))).toHaveLength(20)),
      history: await trips(async (_, again) => expect(await all(again.getStateHistory(config, { limit: 20 }))).toHaveLength(20)),
      status: await trips(async (_, again) => new GraphRunner(again).status("t")),
    };
    const most = { getTuple: 3, getState: 3, list: 6, history: 6, status: 8 };
    const exceeded = Object.entries(most).filter(([call, limit]) => found[call as keyof typeof found] > limit);
    expect({ found, exceeded }).toEqual({ found, exceeded: [] });
  } finally {
    await proxy.close();
  }
}, 300_000);

describe("what is done to a whole thread", () => {
  const UNDOS = 9;
  const options = { schema: schemaAt("round trips of threads"), logger: quiet };
  const undoable = defineEffect("trips, undone", { run: (name: string) => name, undo: () => undefined });
  let proxy: PostgresProxy;
  beforeAll(async () => {
    proxy = await PostgresProxy.inFrontOf(process.env["TURNS_PG_DIRECT_URL"]!);
  });
  afterAll(() => proxy.close());

  /** The round trips of a process that has read nothing of the thread yet. */
  async function trips(work: (saver: PostgresTurnSaver) => Promise<unknown>): Promise<number> {
    const saver = PostgresTurnSaver.fromConnString(proxy.url, options);
    await saver.getTuple({ configurable: { thread_id: "none" } });
    proxy.delay = { toServer: 3, toClient: 3 };
    await quietProxy(proxy);
    await work(saver);
    await quietTail(proxy);
    proxy.delay = { toServer: 0, toClient: 0 };
    await saver.close();
    return proxy.roundTrips;
  }

  async function threeRuns(threadId: string): Promise<void> {
    const saver = PostgresTurnSaver.fromConnString(proxy.url, options);
    const graph = attached(saver, (name) => Number(name.slice("step ".length)) < UNDOS && undoable(name));
    for (const task_id of ["one", "two", "three"])
      await graph.invoke({ log: ["in"] }, { configurable: { thread_id: threadId, task_id }, recursionLimit: 50 });
    await saver.close();
  }

  test("S9.2 S3.5 a rewind over nine effects costs three round trips for each undo, and at most 24 more", async () => {
    await threeRuns("rewound");
    const counted = await trips(async (saver) => {
      const { effects, removed } = await saver.rewind({ threadId: "rewound", toTask: "two" }, [undoable]);
      expect(effects.undone).toHaveLength(UNDOS);
      expect(removed).toMatchObject({ effects: UNDOS, tasks: 1 });
    });
    expect(counted).toBeLessThanOrEqual(3 * UNDOS + 24);
    await trips(async (saver) => {
      const [rewind] = await saver.rewinds.list("rewound");
      expect(await saver.rewinds.takeBack(rewind!.id, { despiteUndone: true })).toMatchObject({ effects: UNDOS, tasks: 1 });
      expect(await saver.verify()).toMatchObject({ ok: true });
    });
  });

  test("S10.1 S9.2 a list that begins with what needs somebody looks into each thread that waits once", async () => {
    const saver = PostgresTurnSaver.fromConnString(proxy.url, options);
    const graph = saver.attach(
      new StateGraph(State)
        .addNode("asks", () => ({ log: [interrupt<string, string>("well?")] }))
        .addEdge(START, "asks")
        .compile({ checkpointer: saver }),
    );
    await graph.invoke({ log: ["in"] }, { configurable: { thread_id: "waits" } });
    let threads = 1;
    const listed = async (more: number) => {
      for (const until = threads + more; threads < until; threads += 1) await saver.copyThread("waits", `waits ${threads}`);
      return trips(async (reader) => {
        const { threads: found } = await listThreads(reader, { needyFirst: true });
        const states = found.filter(({ threadId }) => threadId.startsWith("waits")).map(({ state }) => state);
        expect(states).toEqual(Array<string>(threads).fill("waiting"));
      });
    };
    const [few, more] = [await listed(1), await listed(10)];
    await saver.close();
    expect((more - few) / 10).toBeLessThanOrEqual(6);
  });

  test("S9.2 S8.7 a prune of a thread costs at most 22 round trips", async () => {
    await threeRuns("pruned");
    const counted = await trips(async (saver) => {
      const pruned = await saver.prune({ threadId: "pruned", keepTasks: 1 });
      expect(pruned).toMatchObject({ done: true, threads: 1 });
      expect(pruned.checkpoints).toBeGreaterThan(STEPS);
    });
    expect(counted).toBeLessThanOrEqual(22);
    await trips(async (saver) => expect(await saver.verify()).toMatchObject({ ok: true }));
  });
});

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

describe("a page of checkpoints that is read together", () => {
  const schema = schemaAt("pages");
  const open = () => PostgresTurnSaver.fromConnString(process.env["TURNS_PG_DIRECT_URL"]!, { schema, logger: quiet });
  const thread = (id: string, checkpointId?: string) => ({
    configurable: { thread_id: id, checkpoint_ns: "", checkpoint_id: checkpointId },
  });

  async function saved(id: string, states: readonly Record<string, unknown>[]): Promise<void> {
    const saver = open();
    let config: { configurable?: Record<string, unknown> } = thread(id);
    for (const [step, channel_values] of states.entries()) {
      const versions = Object.fromEntries(Object.keys(channel_values).map((channel) => [channel, step + 1]));
      const checkpoint = { ...emptyCheckpoint(), channel_values, channel_versions: versions };
      config = await saver.put(config, checkpoint, { source: "loop", step, parents: {} }, versions);
      await saver.putWrites(config, [["out", { step, part: `part ${step} `.repeat(2_000) }]], `task ${step}`);
    }
    await saver.close();
  }

  async function sameAsAlone(id: string, count: number): Promise<void> {
    const [pages, alone] = [open(), open()];
    const listed = await all(pages.list(thread(id)));
    expect(listed).toHaveLength(count);
    for (const tuple of listed) {
      const { parentConfig, ...own } = (await alone.getTuple(tuple.config))!;
      expect(tuple).toEqual({ ...own, ...(parentConfig === undefined ? {} : { parentConfig }) });
    }
    expect(await all(alone.list(thread(id), { limit: 7 }))).toEqual(listed.slice(0, 7));
    await pages.close();
    await alone.close();
  }

  test("S9.2 values that are too large for one page, shared or not, come as when they are read one by one", async () => {
    const shared = "shared ".repeat(300_000);
    const states = Array.from({ length: 12 }, (_, step) => ({
      shared: { text: shared },
      own: `own ${step} `.repeat(150_000),
      both: { shared: { text: shared }, own: { text: `${step} both `.repeat(20_000) } },
      log: Array.from({ length: step + 1 }, (__, at) => ({ at, text: "in the log ".repeat(50) })),
      shrinking: Array.from({ length: 12 - step }, (__, at) => `${at} of those that are left`),
      fresh: Array.from({ length: 800 }, (__, at) => `${step} ${at}`),
    }));
    await saved("large", states);
    await sameAsAlone("large", 12);
  });

  test("S9.2 branches of a list come as when they are read one by one", async () => {
    const log = Array.from({ length: 30 }, (_, at) => ({ at, text: `message ${at} `.repeat(20) }));
    const other = (from: number, name: string) => [
      ...log.slice(0, from),
      ...log.slice(from, 25).map((one) => ({ ...one, name })),
    ];
    await saved("branches", [
      ...[5, 10, 30, 20].map((length) => ({ log: log.slice(0, length) })),
      ...[
        { log: other(10, "a") },
        { log: other(20, "b") },
        { log: other(3, "c") },
        { log },
        { log: [] },
        { log: other(20, "b") },
      ],
    ]);
    await sameAsAlone("branches", 10);
  });

  test("S9.2 damage is reported for the checkpoint that has it, after those before it", async () => {
    await saved(
      "damaged",
      Array.from({ length: 8 }, (_, step) => ({ own: { text: `mine ${step} `.repeat(500) }, log: [`${step} `.repeat(500)] })),
    );
    const pool = new Pool({ connectionString: process.env["TURNS_PG_DIRECT_URL"]! });
    const damage = `UPDATE "${schema}".langgraph_chunks SET body = replace(body, 'mine 3', 'mine 9') WHERE body LIKE '%mine 3%'`;
    expect((await pool.query(damage)).rowCount).toBe(1);
    await pool.end();
    const saver = open();
    const steps: unknown[] = [];
    const listing = async () => {
      for await (const { metadata } of saver.list(thread("damaged"), { limit: 8 })) steps.push(metadata?.step);
    };
    await expect(listing()).rejects.toMatchObject({ code: "CHECKPOINT_CORRUPTED" });
    expect(steps).toEqual([7, 6, 5, 4]);
    await saver.close();
  });
});

describe("S9.2 what an effect costs", () => {
  let proxy: PostgresProxy;
  let saver: PostgresTurnSaver;
  let pool: Pool;
  beforeAll(async () => {
    proxy = await PostgresProxy.inFrontOf(process.env["TURNS_PG_DIRECT_URL"]!);
    saver = PostgresTurnSaver.fromConnString(proxy.url, { schema: schemaAt("round trips of effects"), logger: quiet });
    pool = new Pool({ connectionString: proxy.url });
    pool.on("error", () => undefined);
  });
  afterAll(async () => {
    await saver.close();
    await pool.end();
    await proxy.close();
  });

  /** The round trips per step of a run on a new thread, apart from the run's own. */
  async function extra(effect: DefinedEffect<string>, times = 1): Promise<number> {
    const graph = attached(saver, async (name) => {
      for (let at = 0; at < times; at += 1) await effect(`${name} ${at}`);
    });
    await tripsOf(proxy, graph, `${effect.effectName}: the first of the process`);
    const plain = await tripsOf(proxy, attached(saver), `${effect.effectName}: without effects`);
    return (await tripsOf(proxy, graph, `${effect.effectName}: with effects`)) - plain;
  }
  const run = () => "done";

  test("S9.2 an effect costs at most three round trips: two for its intent, one for its outcome", async () => {
    expect(await extra(defineEffect("trips, plain", { run, undo: run }))).toBeLessThan(3 + BEATS);
    expect(await extra(defineEffect("trips, idempotent", { run, idempotent: true, undo: false }))).toBeLessThan(3 + BEATS);
  });

  test("S9.2 effects of the same node cost no more than the first one", async () => {
    expect(await extra(defineEffect("trips, three in a node", { run, undo: false }), 3)).toBeLessThan(9 + BEATS);
  });

  test.each([false, true])(
    "S9.2 a transactional effect costs at most seven round trips besides its own statements, with the option `journal`: %s",
    async (isJournaled) => {
      const schema = schemaAt("round trips of effects");
      const tx = pgTransactions(pool, { schema, table: `done_${isJournaled}`, ...(isJournaled && { journal: saver }) });
      const own = defineEffect(`trips, transactional ${isJournaled}`, {
        tx,
        run: async (_: string, { db }) => (await db.query("SELECT 1")).rowCount,
        undo: false,
      });
      expect(await extra(own as DefinedEffect<string>)).toBeLessThan(8 + BEATS);
    },
  );

  test("S9.2 an effect whose row was changed since it began is read again, and what was remembered isn't written over it", async () => {
    const table = `"${schemaAt("round trips of effects")}".langgraph_effects`;
    const damaged = defineEffect("trips, damaged", {
      run: () => pool.query(`UPDATE ${table} SET checksum = 'of somebody else' WHERE name = 'trips, damaged'`).then(() => "done"),
      undo: false,
    });
    const graph = attached(saver, () => damaged());
    const config = { configurable: { thread_id: "damaged" } };
    await expect(graph.invoke({ log: ["in"] }, config)).rejects.toMatchObject({ code: "EFFECT_NOT_RECORDED" });
    const { rows } = await pool.query(`SELECT status, checksum FROM ${table} WHERE name = 'trips, damaged'`);
    expect(rows).toEqual([{ status: "intent", checksum: "of somebody else" }]);
  });
});
