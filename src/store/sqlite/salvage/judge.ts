import { ARCHIVE, REWINDS, SETTINGS, type Table, THREAD_TABLES, TOMBSTONES } from "../../tables";
import type { IntegrityProblem, VerifyCounts } from "../../integrity";
import { lookedAt, type SqliteSql } from "../engine";
import { startVerify } from "../verify";
import type { IsGraph } from "../verify-rows";

type Where = IntegrityProblem["where"];

/** A thread without its own row is nothing; salvage looks after those rows by itself. */
const REMOVABLE: readonly Table[] = [...THREAD_TABLES, REWINDS, SETTINGS, TOMBSTONES];

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
  if (table === ARCHIVE.name) return removeArchive(sql, where);
  const described = REMOVABLE.find(({ name }) => name === table);
  const keys = described?.id ?? described?.key ?? [];
  const named: Where = { ...where, ...(described === TOMBSTONES ? { thread_id: threadId ?? "" } : {}) };
  if (described === undefined || keys.some((key) => named[key] === undefined)) return false;
  const text = `DELETE FROM ${described.name} WHERE ${keys.map((key) => `${key} IS ?`).join(" AND ")}`;
  return sql.now(sql.run(text, ...keys.map((key) => named[key] ?? null))) > 0;
}

/** An archive is of use as a whole, or not at all. */
export function removeArchive(sql: SqliteSql, { rewindId }: Where): boolean {
  return sql.now(sql.run("DELETE FROM langgraph_archive WHERE rewind_id = ?", String(rewindId))) > 0;
}
