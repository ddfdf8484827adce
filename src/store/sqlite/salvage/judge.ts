import type { IntegrityProblem, VerifyCounts } from "../../integrity";
import { lookedAt, type SqliteSql } from "../engine";
import { startVerify } from "../verify";
import type { IsGraph } from "../verify-effects";

type Where = IntegrityProblem["where"];

/** By what a problem names a row of each table. */
const KEYS: Record<string, readonly [table: string, columns: Readonly<Record<string, string>>]> = {
  langgraph_snapshots: ["langgraph_snapshots", { seq: "seq" }],
  langgraph_writes: ["langgraph_writes", { seq: "seq" }],
  langgraph_chunks: ["langgraph_chunks", { seq: "seq" }],
  langgraph_lists: ["langgraph_lists", { seq: "seq" }],
  langgraph_items: ["langgraph_items", { list: "list", pos: "pos" }],
  langgraph_checkpoints: ["langgraph_checkpoints", { id: "id" }],
  langgraph_effects: ["langgraph_effects", { id: "id" }],
  langgraph_graphs: ["langgraph_graphs", { seq: "seq" }],
  langgraph_tasks: ["langgraph_tasks", { thread: "thread", seq: "seq" }],
  langgraph_names: ["langgraph_names", { thread: "thread", name: "name" }],
  langgraph_rewinds: ["langgraph_rewinds", { id: "id" }],
  langgraph_settings: ["langgraph_settings", { name: "name" }],
};

/** Everything that is wrong with a file, at once; between its steps others have their turn. */
export async function problemsOf(
  sql: SqliteSql,
  isGraph: IsGraph,
): Promise<{ problems: IntegrityProblem[]; checked: Partial<VerifyCounts>; threads: number }> {
  const step = sql.now(startVerify(sql, undefined, isGraph));
  const problems: IntegrityProblem[] = [];
  const checked: Partial<Record<keyof VerifyCounts, number>> = {};
  let threads = 0;
  for (;;) {
    const found = lookedAt(sql, step);
    problems.push(...found.problems);
    threads += found.threads;
    for (const [name, count] of Object.entries(found.checked)) {
      const kind = name as keyof VerifyCounts;
      checked[kind] = (checked[kind] ?? 0) + count;
    }
    if (found.table === undefined) return { problems, checked, threads };
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Removes the row that a problem is about. @returns false if it was gone already, or a problem is about none */
export function removeRow(sql: SqliteSql, { table, where, threadId }: IntegrityProblem): boolean {
  if (table === "langgraph_tombstones")
    return sql.now(sql.run("DELETE FROM langgraph_tombstones WHERE thread_id = ?", threadId ?? "")) > 0;
  if (table === "langgraph_archive") return removeArchive(sql, where);
  const [name, columns] = KEYS[table] ?? [];
  if (name === undefined || columns === undefined) return false;
  const keys = Object.entries(columns);
  if (keys.some(([key]) => where[key] === undefined)) return false;
  const text = `DELETE FROM ${name} WHERE ${keys.map(([, column]) => `${column} IS ?`).join(" AND ")}`;
  return sql.now(sql.run(text, ...keys.map(([key]) => where[key] ?? null))) > 0;
}

/** An archive is of use as a whole, or not at all. */
export function removeArchive(sql: SqliteSql, { rewindId }: Where): boolean {
  return sql.now(sql.run("DELETE FROM langgraph_archive WHERE rewind_id = ?", String(rewindId))) > 0;
}
