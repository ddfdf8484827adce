import { strict as assert } from "node:assert";
import { truncateSync } from "node:fs";
import { join } from "node:path";
import type { AIMessage } from "@langchain/core/messages";
import Database from "better-sqlite3";
import { TurnSaver } from "langgraph-checkpoint-turns";
import { PostgresTurnSaver } from "langgraph-checkpoint-turns/postgres";
import { Client } from "pg";
import { SNAPSHOT_ROWS, plainSealing, sha256, TURN_ROWS, WRITE_ROWS } from "../../src/testing-internal";
import { ChainGraph, messagesOf } from "./chain-graph";
import { NaiveFile } from "./naive-file";
import { NaiveSaver, type Rung, RUNGS } from "./naive-saver";
import { NaiveServer } from "./naive-server";

const STEPS = 12;
const CHANGED = "changed in place";
/** The first commit of a thread, and one more for the lease. */
const EXTRA_COMMITS = 3;

/** A rung that didn't do what it says would be a fast one. @throws AssertionError */
export async function checkRung(rung: Rung, folder: string): Promise<void> {
  const path = join(folder, `check-${rung}.db`);
  await checkBoundaries(rung, path);
  if (rung >= RUNGS.tables) checkTables(path, rung);
  if (rung >= RUNGS.values) await checkValues(rung, join(folder, `values-${rung}.db`));
  if (rung >= RUNGS.looks) await checkLooks(rung, folder);
  if (rung >= RUNGS.fence) await checkFence(rung, join(folder, `fence-${rung}.db`));
}

/** Before a body all that came before is committed, the Action of the node before with its writes. */
async function checkBoundaries(rung: Rung, path: string): Promise<void> {
  const saver = new NaiveSaver(new NaiveFile(path, rung), rung);
  const beside = new Database(path, { readonly: true });
  const of =
    rung < RUNGS.tables ? ["turns", "writes", "messages"] : ["langgraph_checkpoints", "langgraph_writes", "langgraph_items"];
  const counts = of.map((table) => beside.prepare(`SELECT count(*) FROM ${table}`).pluck());
  const inBody = (done: number): void => {
    const [turns, writes, messages] = counts.map((count) => count.get());
    assert.deepEqual({ turns, writes, messages }, { turns: 2 * done + 1, writes: done + 1, messages: done });
  };
  const messages = messagesOf(1, STEPS);
  await new ChainGraph({ saver, records: true, inBody }).run("one", messages);
  assert.ok(saver.commits <= STEPS + EXTRA_COMMITS, `${saver.commits} commits of ${STEPS} supersteps`);
  const turns = await saver.turns.list("one");
  assert.deepEqual(
    turns.map(({ turnType }) => turnType),
    messages.flatMap(() => ["Thought", "Action"]),
  );
  const stored = saver.messagesOf("one");
  assert.equal(stored.length, STEPS);
  for (const [at, { content }] of messages.entries()) assert.ok(stored[at]?.includes(JSON.stringify(content)));
  beside.close();
  await saver.close();
}

/** Each table has the rows that the package would have, each row its checksum, each chunk its address. */
function checkTables(path: string, rung: Rung): void {
  const db = new Database(path, { readonly: true });
  const all = (table: string) => db.prepare(`SELECT * FROM langgraph_${table}`).all() as never[];
  for (const [table, rows] of [
    ["threads", 1],
    ["tasks", 1],
    ["graphs", 1],
    ["lists", 1],
  ] as const)
    assert.equal(all(table).length, rows, table);
  for (const [table, rows] of [
    ["snapshots", STEPS + 2],
    ["writes", STEPS + 1],
    ["checkpoints", 2 * STEPS],
    ["items", STEPS],
    ["chunks", STEPS],
  ] as const)
    assert.equal(all(table).length, rows, table);
  const tables = [
    [SNAPSHOT_ROWS, "snapshots"],
    [WRITE_ROWS, "writes"],
    [TURN_ROWS, "checkpoints"],
  ] as const;
  for (const [rows, table] of tables) {
    for (const row of all(table) as { checksum: string }[]) {
      const right = rows.checksum(plainSealing, "one", row as never);
      assert.equal(row.checksum === right, rung >= RUNGS.checksums, `a checksum in ${table}`);
    }
  }
  for (const { address, body } of all("chunks") as { address: string; body: string }[])
    assert.equal(address === sha256(body), rung >= RUNGS.checksums);
  db.close();
}

/** The package reads the file, finds nothing wrong in it, and finds the messages as they are, also those that a node changed in place. */
async function checkValues(rung: Rung, path: string): Promise<void> {
  const saver = new NaiveSaver(new NaiveFile(path, rung), rung);
  const messages = await savedWithChange(saver);
  const ours = TurnSaver.fromPath(path);
  await checkRead(ours, messages);
  ours.close();
}

/** The same on PostgreSQL, on new tables. A step on a thread that somebody else has changed fails. */
export async function checkServer(url: string, schema: string): Promise<void> {
  const saver = new NaiveSaver(await NaiveServer.open(url, schema), RUNGS.values);
  const messages = await savedWithChange(saver);
  const ours = PostgresTurnSaver.fromConnString(url, { schema });
  await checkRead(ours, messages);
  await ours.close();
  const fenced = new NaiveSaver(await NaiveServer.open(url, schema), RUNGS.values);
  const beside = new Client(url);
  await beside.connect();
  let changed: Promise<unknown> | undefined;
  const inBody = async (done: number): Promise<void> => {
    if (done === 5) await (changed = beside.query(`UPDATE ${schema}.langgraph_threads SET generation = 1`));
  };
  const run = new ChainGraph({ saver: fenced, records: true, inBody }).run("three", messagesOf(5, STEPS));
  await silently(() => assert.rejects(run, /division by zero/));
  assert.notEqual(changed, undefined);
  await beside.end();
  await fenced.close();
}

/** @returns what the thread "two" has to hold */
async function savedWithChange(saver: NaiveSaver): Promise<AIMessage[]> {
  const messages = messagesOf(2, STEPS);
  const changed = messages[2] as AIMessage;
  const inBody = (done: number): void => {
    if (done === 7) changed.content = CHANGED;
  };
  await new ChainGraph({ saver, records: true, inBody }).run("two", messages);
  await saver.close();
  // The argument from which its constructor made the content is stored as the content is now.
  changed.lc_kwargs["content"] = CHANGED;
  return messages as AIMessage[];
}

async function checkRead(ours: TurnSaver, messages: readonly AIMessage[]): Promise<void> {
  const report = await ours.verify();
  assert.deepEqual(report.problems, []);
  const tuple = await ours.getTuple({ configurable: { thread_id: "two" } });
  assert.deepEqual(tuple?.checkpoint.channel_values["messages"], messages);
  assert.equal((await ours.turns.list("two")).length, 2 * STEPS);
}

/** A run after the log, or the file, was cut fails. */
async function checkLooks(rung: Rung, folder: string): Promise<void> {
  for (const suffix of ["", "-wal"]) {
    const path = join(folder, `cut-${rung}${suffix}.db`);
    const file = new NaiveFile(path, rung);
    const saver = new NaiveSaver(file, rung);
    if (suffix === "") file.db.pragma("wal_autocheckpoint = 20");
    const graph = new ChainGraph({ saver, records: true });
    await graph.run("whole", messagesOf(3, STEPS));
    truncateSync(`${path}${suffix}`, 8_192);
    await assert.rejects(graph.run("cut", messagesOf(4, STEPS)), /was cut/);
    await saver.close();
  }
}

/** A run whose lease somebody took, or whose thread somebody else saved on, fails at its next boundary. */
async function checkFence(rung: Rung, path: string): Promise<void> {
  const taken = [
    "DELETE FROM langgraph_runs",
    "UPDATE langgraph_threads SET generation = 1",
    "UPDATE langgraph_threads SET seq = seq + 1",
  ];
  for (const [at, statement] of taken.entries()) {
    const saver = new NaiveSaver(new NaiveFile(`${path}-${at}`, rung), rung);
    const beside = new Database(`${path}-${at}`);
    const inBody = (done: number): void => {
      if (done === 5) beside.exec(statement);
    };
    const run = new ChainGraph({ saver, records: true, inBody }).run("three", messagesOf(5, STEPS));
    await assert.rejects(run, at === 0 ? /lease is lost/ : /somebody else has saved/);
    beside.close();
    await saver.close();
  }
}

/** LangChain prints each error that a handler throws. */
export async function silently(work: () => Promise<void>): Promise<void> {
  const { error } = console;
  console.error = () => undefined;
  try {
    await work();
  } finally {
    console.error = error;
  }
}
