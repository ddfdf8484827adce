import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { PostgresTurnSaver } from "langgraph-checkpoint-turns/postgres";
import { schemaAt } from "../support/open-saver";
import { startPgBouncer } from "../support/postgres/pgbouncer";
import { PostgresProxy } from "../support/postgres/proxy";
import { quiet } from "../support/s1-tools";

const STEPS = 12;
const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (left, right) => [...left, ...right], default: () => [] }),
});

function attached(saver: PostgresTurnSaver) {
  const builder = new StateGraph(State) as unknown as StateGraph<typeof State, typeof State.State, typeof State.Update, string>;
  const names = Array.from({ length: STEPS }, (_, step) => `step ${step}`);
  for (const name of names) builder.addNode(name, () => ({ log: [name] }));
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
