import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { PostgresTurnSaver } from "langgraph-checkpoint-turns/postgres";
import { schemaAt } from "../support/open-saver";
import { PostgresProxy } from "../support/postgres/proxy";
import { quiet } from "../support/s1-tools";

const STEPS = 12;
let proxy: PostgresProxy;
beforeAll(async () => {
  proxy = await PostgresProxy.inFrontOf(process.env["TURNS_PG_DIRECT_URL"]!);
});
afterAll(() => proxy.close());

test("PostgreSQL: from the first body on, a step of an attached graph costs at most 1.3 round trips", async () => {
  const saver = PostgresTurnSaver.fromConnString(proxy.url, { schema: schemaAt("round trips"), logger: quiet });
  const State = Annotation.Root({
    log: Annotation<string[]>({ reducer: (left, right) => [...left, ...right], default: () => [] }),
  });
  const builder = new StateGraph(State) as unknown as StateGraph<typeof State, typeof State.State, typeof State.Update, string>;
  const names = Array.from({ length: STEPS }, (_, step) => `step ${step}`);
  let bodies = 0;
  for (const name of names) {
    builder.addNode(name, () => {
      if ((bodies += 1) % STEPS === 1) proxy.reset();
      return { log: [name] };
    });
  }
  for (const [at, name] of [START, ...names].entries()) builder.addEdge(name, names[at] ?? END);
  const graph = saver.attach(builder.compile({ checkpointer: saver }));
  for (const thread of ["new", "new", "other"]) {
    proxy.delay = { toServer: 3, toClient: 3 };
    await graph.invoke({ log: ["in"] }, { configurable: { thread_id: thread }, recursionLimit: 50 });
    expect(proxy.roundTrips / STEPS).toBeLessThanOrEqual(1.3);
  }
  expect(await saver.verify()).toMatchObject({ ok: true, checked: { turns: 2 * STEPS * 3 } });
  await saver.close();
});
