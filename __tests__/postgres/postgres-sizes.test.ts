import { randomBytes } from "node:crypto";
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { emptyCheckpoint } from "@langchain/langgraph-checkpoint";
import { TurnSaver } from "langgraph-checkpoint-turns";
import { moveAllThreads, vacuum } from "langgraph-checkpoint-turns/maintenance";
import { Client } from "pg";
import { LONG, runs } from "../support/lane";
import { thread } from "../support/eff-world";
import { openSaver, schemaAt } from "../support/open-saver";
import { quiet } from "../support/s1-tools";
import { tempFile } from "../support/temp";

/** Sizes as they come, and what is too large; the space of what was deleted. */
const saver = openSaver("sizes", { logger: quiet });
afterAll(() => saver.close());
jest.setTimeout(300_000);

async function saved(id: string, values: Record<string, unknown>): Promise<Record<string, unknown>> {
  const versions = Object.fromEntries(Object.keys(values).map((name) => [name, 1]));
  const checkpoint = { ...emptyCheckpoint(), channel_values: values, channel_versions: versions };
  await saver.put(thread(id), checkpoint, { source: "input", step: -1, parents: {} }, versions);
  return (await saver.getTuple(thread(id)))!.checkpoint.channel_values;
}

test("S9.1 PostgreSQL: large values, many channels and long ids are saved, read and copied", async () => {
  const megabytes = runs(8, 100);
  const text = "ab".repeat(megabytes * 500_000);
  expect((await saved("text", { text }))["text"] === text).toBe(true);
  const bytes = new Uint8Array(megabytes * 1_000_000).fill(7);
  expect(Buffer.compare((await saved("bytes", { bytes }))["bytes"] as Uint8Array, bytes)).toBe(0);
  const many = Object.fromEntries(Array.from({ length: 10_000 }, (_, at) => [`channel ${at}`, at]));
  expect(await saved("many", many)).toEqual(many);
  for (const id of ["text", "many"]) {
    await saver.copyThread(id, `${id}, copied`);
    const [copy, original] = await Promise.all([`${id}, copied`, id].map((each) => saver.getTuple(thread(each))));
    expect(copy!.checkpoint.channel_values).toEqual(original!.checkpoint.channel_values);
  }
  const long = Array.from({ length: 2_500 }, (_, at) => String.fromCharCode(33 + ((at * 7_919) % 90))).join("");
  expect(await saved(long, { a: 1 })).toEqual({ a: 1 });
});

test("S9.1 PostgreSQL: a thread id that no index can hold is refused", async () => {
  const id = Array.from({ length: 5_000 }, () => String.fromCharCode(33 + Math.random() * 90)).join("");
  await expect(saved(id, { a: 1 })).rejects.toMatchObject({ code: "STORE_FAILED", data: { sqlstate: "54000" } });
});

test("S9.7 PostgreSQL: threads with ids or names that no index can hold stay in their file, and the others move", async () => {
  const long = "m" + randomBytes(2_500).toString("hex");
  const file = TurnSaver.fromPath(tempFile(), { logger: quiet });
  const target = openSaver("sizes-moved", { logger: quiet });
  const run = (threadId: string, name = "a") =>
    new StateGraph(Annotation.Root({ log: Annotation<string> }))
      .addNode(name, () => ({ log: name }))
      .addEdge(START, name)
      .compile({ checkpointer: file })
      .invoke({ log: "" }, thread(threadId));
  for (const id of ["a", long, "x", "z"]) await run(id);
  const inserted = emptyCheckpoint();
  const config = { configurable: { thread_id: "n", checkpoint_ns: long } };
  await file.put(config, inserted, { source: "input", step: -1, parents: {} }, {});
  const { threads, refused, done } = await moveAllThreads(file, target);
  expect({ moved: threads.map(({ threadId }) => threadId), done }).toEqual({ moved: ["a", "x", "z"], done: true });
  expect(refused.map(({ threadId, code }) => [threadId, code])).toEqual([
    [long, "STORE_FAILED"],
    ["n", "STORE_FAILED"],
  ]);
  for (const { message } of refused) expect(message).toMatch(/can't index a name.*Use shorter thread ids/);
  // They can still be used where they are.
  await run(long);
  expect(await file.getTuple(config)).toBeDefined();
  for (const saver of [file, target]) expect(await saver.verify()).toMatchObject({ ok: true });
  // Trouble of the target stops the call.
  const client = new Client(process.env["TURNS_PG_DIRECT_URL"]);
  await client.connect();
  await run("b");
  const hasty = openSaver("sizes-moved", { logger: quiet, busyTimeoutMs: 100 });
  await hasty.setup();
  await client.query(`BEGIN; LOCK TABLE "${schemaAt("sizes-moved")}".langgraph_threads`);
  await expect(moveAllThreads(file, hasty)).rejects.toMatchObject({ code: "STORE_BUSY" });
  hasty.close();
  await client.query("ROLLBACK");
  await client.end();
  file.close();
  target.close();
});

async function vacuumedAt(): Promise<Date | null> {
  const client = new Client(process.env["TURNS_PG_DIRECT_URL"]);
  await client.connect();
  const { rows } = await client.query<{ at: Date | null }>(
    "SELECT last_vacuum AS at FROM pg_stat_user_tables WHERE schemaname = $1 AND relname = 'langgraph_chunks'",
    [schemaAt("sizes")],
  );
  await client.end();
  return rows[0]?.at ?? null;
}

test("S9.1 PostgreSQL: vacuum makes the space of deleted rows usable again, however long it takes", async () => {
  for (const id of ["text", "text, copied", "bytes"]) await saver.deleteThread(id);
  await vacuum(saver);
  expect(await vacuumedAt()).not.toBeNull();
  // It waits for somebody longer than for any save: in the long lane, longer than the server may be silent.
  const hasty = openSaver("sizes", { logger: quiet, busyTimeoutMs: 100 });
  await hasty.setup();
  const client = new Client(process.env["TURNS_PG_DIRECT_URL"]);
  await client.connect();
  await client.query(`BEGIN; LOCK TABLE "${schemaAt("sizes")}".langgraph_threads IN SHARE UPDATE EXCLUSIVE MODE`);
  const full = vacuum(hasty, { full: true });
  await new Promise((done) => setTimeout(done, LONG ? 35_000 : 500));
  await client.query("COMMIT");
  await full;
  hasty.close();
  await client.end();
  expect(await saver.verify()).toMatchObject({ ok: true });
});
