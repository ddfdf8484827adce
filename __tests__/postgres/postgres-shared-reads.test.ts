import { emptyCheckpoint } from "@langchain/langgraph-checkpoint";
import { PostgresTurnSaver } from "langgraph-checkpoint-turns/postgres";
import { Pool } from "pg";
import { schemaAt } from "../support/open-saver";
import { PostgresProxy } from "../support/postgres/proxy";
import { quiet } from "../support/s1-tools";

const schema = schemaAt("shared reads");
const url = process.env["TURNS_PG_DIRECT_URL"]!;
const threads = ["a", "b", "c"];
const at = (thread_id: string) => ({ configurable: { thread_id, checkpoint_ns: "" } });
let proxy: PostgresProxy;
let saver: PostgresTurnSaver;
let pool: Pool;

beforeAll(async () => {
  proxy = await PostgresProxy.inFrontOf(url);
  saver = PostgresTurnSaver.fromConnString(proxy.url, { schema, logger: quiet });
  pool = new Pool({ connectionString: url });
  for (const thread of threads) {
    const checkpoint = { ...emptyCheckpoint(), channel_values: { of: thread }, channel_versions: { of: 1 } };
    await saver.put(at(thread), checkpoint, { source: "loop", step: 0, parents: {} }, { of: 1 });
  }
});
afterAll(async () => {
  await saver.close();
  await pool.end();
  await proxy.close();
});

async function read(): Promise<unknown[]> {
  const read = await Promise.allSettled(threads.map((thread) => saver.getTuple(at(thread))));
  return read.map((one) =>
    one.status === "rejected" ? (one.reason as { code: unknown }).code : one.value?.checkpoint.channel_values["of"],
  );
}

test("S9.2 reads of one macrotask are one transaction, and see what was saved before them", async () => {
  proxy.reset();
  const saved = saver.putWrites(await saver.getTuple(at("a")).then((tuple) => tuple!.config), [["of", "write"]], "task");
  const [tuple] = await Promise.all([saver.getTuple(at("a")), saver.getTuple(at("b")), saver.getTuple(at("c"))]);
  await saved;
  expect(tuple?.pendingWrites).toEqual([["task", "of", "write"]]);
  const begun = proxy.flights.filter(({ statements }) => statements[0]?.includes("READ ONLY"));
  expect(begun).toHaveLength(2);
});

test.each([
  [
    "a row that was changed",
    "UPDATE $.langgraph_snapshots SET body = 'x' WHERE seq = (SELECT max(s.seq) FROM $.langgraph_snapshots AS s JOIN $.langgraph_threads AS t USING (thread) WHERE t.thread_id = 'b')",
  ],
  [
    "text that is no JSON",
    "UPDATE $.langgraph_snapshots SET channels = 'no JSON' WHERE thread = (SELECT thread FROM $.langgraph_threads WHERE thread_id = 'b')",
  ],
])("S9.2 each read of a macrotask has its own outcome: %s fails no other", async (_, damage) => {
  await pool.query(damage.replaceAll("$", `"${schema}"`));
  const [a, b, c] = await read();
  expect([a, c]).toEqual(["a", "c"]);
  expect(typeof b).toBe("string");
  expect(b).not.toBe("b");
});
