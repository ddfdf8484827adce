import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { type DefinedEffect, defineEffect } from "langgraph-checkpoint-turns";
import { PostgresTurnSaver } from "langgraph-checkpoint-turns/postgres";
import { pgTransactions } from "langgraph-checkpoint-turns/transactions";
import { Pool } from "pg";
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

/** Nothing more is on its way: not even a COMMIT that nobody waits for. */
async function quietProxy(proxy: PostgresProxy): Promise<void> {
  for (let before = -1; before !== proxy.roundTrips;) {
    before = proxy.roundTrips;
    await new Promise((done) => setTimeout(done, 100));
  }
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

describe("S9.2 what an effect costs", () => {
  let proxy: PostgresProxy;
  let saver: PostgresTurnSaver;
  let pool: Pool;
  beforeAll(async () => {
    proxy = await PostgresProxy.inFrontOf(process.env["TURNS_PG_DIRECT_URL"]!);
    saver = PostgresTurnSaver.fromConnString(proxy.url, { schema: schemaAt("round trips of effects"), logger: quiet });
    pool = new Pool({ connectionString: proxy.url });
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
    "S9.2 a transactional effect costs at most six round trips besides its own statements, with the option `journal`: %s",
    async (isJournaled) => {
      const schema = schemaAt("round trips of effects");
      const tx = pgTransactions(pool, { schema, table: `done_${isJournaled}`, ...(isJournaled && { journal: saver }) });
      const own = defineEffect(`trips, transactional ${isJournaled}`, {
        tx,
        run: async (_: string, { db }) => (await db.query("SELECT 1")).rowCount,
        undo: false,
      });
      expect(await extra(own as DefinedEffect<string>)).toBeLessThan(7 + BEATS);
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
