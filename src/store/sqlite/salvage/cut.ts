import type { IntegrityProblem } from "../../integrity";
import { firstSeq } from "../../spans";
import type { LostItem } from "../../salvage";
import { NOTHING_REMEMBERED } from "../../store";
import { deltaHistory } from "../../ops/delta";
import type { SqliteSql } from "../engine";
import { changeRewind } from "../rewind-records";
import { TASK_ROWS } from "../../rows";
import { type Table, VERSIONED } from "../../tables";
import { threadIdOf, threadKey } from "../../ops/thread-rows";
import type { IsGraph } from "../verify-effects";
import { inOne } from "./in-one";
import { problemsOf, removeArchive, removeRow } from "./judge";
import { succeeds } from "./repair-threads";

/** What is missing somewhere shows in what refers to it, and so on; the longest chain is one of lists. */
const ROUNDS_MAX = 1_000;
const NEXT = ({ name, versionsOf = [] }: Table): string =>
  `(SELECT min(n.seq) FROM ${name} AS n WHERE ${versionsOf.map((column) => `n.${column} = ${name}.${column}`).join(" AND ")}
    AND n.seq > ${name}.seq)`;
const FIRST_TURN = "SELECT task_id, graph_id, created_at FROM langgraph_checkpoints WHERE thread = ? ORDER BY seq LIMIT 1";
const DELTAS = `SELECT seq, thread, checkpoint_ns AS ns, checkpoint_id AS checkpointId, delta FROM langgraph_snapshots
  WHERE delta IS NOT NULL AND superseded_by IS NULL ORDER BY seq`;

/** By number of a thread where its history was cut, and what was removed on the way. */
export interface Cuts {
  cutAt: Map<number, number>;
  lost: LostItem[];
}

/** Removes what does not verify, and then what refers to it, until everything that is left does. */
export async function cutToWhole(
  sql: SqliteSql,
  isGraph: IsGraph,
): Promise<Cuts & { judged: Awaited<ReturnType<typeof problemsOf>> }> {
  const cuts: Cuts = { cutAt: new Map(), lost: [] };
  for (let round = 0; round < ROUNDS_MAX; round += 1) {
    inOne(sql, () => superseded(sql, cuts));
    const judged = await problemsOf(sql, isGraph);
    const changed = inOne(sql, () => {
      let count = 0;
      for (const problem of judged.problems) if (settled(sql, problem, cuts)) count += 1;
      return count === 0 ? withoutBrokenDeltas(sql, cuts) : count;
    });
    if (changed === 0) return { ...cuts, judged };
  }
  throw new Error("what is left of the file does not come to an end");
}

/** @returns whether something was done about it */
function settled(sql: SqliteSql, problem: IntegrityProblem, cuts: Cuts): boolean {
  const { table, kind, where, threadId } = problem;
  if (table === "langgraph_threads") return kind === "task" ? ownedAgain(sql, problem, cuts) : false;
  if (table === "langgraph_snapshots" && kind === "reference" && problem.expected.endsWith("its parent")) {
    return cutBehind(sql, problem, cuts);
  }
  const rewindId = table === "langgraph_archive" ? where["rewindId"] : kind === "archive" ? where["id"] : undefined;
  if (rewindId !== undefined) return withoutArchive(sql, problem, String(rewindId), cuts);
  if (!removeRow(sql, problem)) return false;
  cuts.lost.push({
    table,
    threadId: threadId ?? ownerOf(sql, where),
    where,
    why: `${kind}: ${problem.expected}; found ${problem.found}`,
  });
  return true;
}

function ownerOf(sql: SqliteSql, where: IntegrityProblem["where"]): string | undefined {
  return typeof where["thread"] === "number" ? sql.now(threadIdOf(sql, where["thread"])) || undefined : undefined;
}

/** The checkpoint stays; what was before it is not there to go back to. */
function cutBehind(sql: SqliteSql, { where, threadId = "", expected }: IntegrityProblem, cuts: Cuts): boolean {
  const seq = Number(where["seq"]);
  const isThere = sql.now(sql.get("SELECT 1 FROM langgraph_snapshots WHERE seq = ?", seq)) !== undefined;
  const key = isThere ? sql.now(threadKey(sql, threadId)) : undefined;
  if (key === undefined) return false;
  const { thread } = key;
  key.change({ prunedSeq: Math.max(key.row.prunedSeq, seq - 1) });
  cuts.cutAt.set(thread, Math.max(seq - 1, cuts.cutAt.get(thread) ?? 0));
  cuts.lost.push({
    table: "langgraph_snapshots",
    threadId,
    where,
    why: `kept, but ${expected}, is lost: the history is cut here`,
  });
  return true;
}

/** Whatever is saved belongs to a task; where the row that says to which is lost, the first turn says it. A thread's first number is its first task's. */
function ownedAgain(sql: SqliteSql, { where, threadId = "" }: IntegrityProblem, cuts: Cuts): boolean {
  const key = sql.now(threadKey(sql, threadId));
  const first = firstSeq(Number(where["thread"])) + 1;
  if (key === undefined || !(Number(where["seq"]) > first)) return false;
  const { thread } = key;
  const turn = sql.now(sql.get<{ task_id: string; graph_id: string; created_at: string }>(FIRST_TURN, thread));
  const task = { taskId: turn?.task_id ?? "salvaged", graphId: turn?.graph_id ?? threadId, seq: first, kind: "run" as const };
  sql.now(sql.insert(key, TASK_ROWS, { ...task, createdAt: turn?.created_at ?? new Date(0).toISOString() }));
  cuts.lost.push({
    table: "langgraph_tasks",
    threadId,
    where,
    why: "the task of the first rows is lost; they are booked to that of the first turn",
  });
  return true;
}

function withoutArchive(sql: SqliteSql, problem: IntegrityProblem, rewindId: string, cuts: Cuts): boolean {
  const removed = removeArchive(sql, { rewindId });
  const isThere =
    sql.now(sql.get("SELECT 1 FROM langgraph_rewinds WHERE id = ? AND (archived = 1 OR entries > 0)", rewindId)) !== undefined;
  if (isThere && !succeeds(() => sql.now(changeRewind(sql, rewindId, { archived: false, entries: 0 })))) return removed;
  if (!removed && !isThere) return false;
  const why = `${problem.expected}; found ${problem.found}: the rewind cannot be taken back any more`;
  cuts.lost.push({ table: "langgraph_archive", threadId: problem.threadId, where: { rewindId }, why });
  return true;
}

/** Which version supersedes which follows from their numbers, unless the one that did is lost: then the older one is none either. */
function superseded(sql: SqliteSql, cuts: Cuts): void {
  for (const table of VERSIONED) {
    const next = NEXT(table);
    const outlived = sql.now(
      sql.all<{ seq: number; thread: number; checkpoint_id: string }>(
        `SELECT seq, thread, checkpoint_id FROM ${table.name} WHERE superseded_by IS NOT NULL AND ${next} IS NULL`,
      ),
    );
    for (const { seq, thread, checkpoint_id: checkpointId } of outlived) {
      sql.now(sql.run(`DELETE FROM ${table.name} WHERE seq = ?`, seq));
      const [threadId, where] = [sql.now(threadIdOf(sql, thread)) || undefined, { seq, checkpointId }];
      cuts.lost.push({ table: table.name, threadId, where, why: "an older version, whose newer one is lost" });
    }
    sql.now(sql.run(`UPDATE ${table.name} SET superseded_by = ${next} WHERE superseded_by IS NOT ${next}`));
  }
}

/** Values that are put together from the writes of ancestors need all of them. */
function withoutBrokenDeltas(sql: SqliteSql, cuts: Cuts): number {
  let removed = 0;
  for (const { seq, thread, ns, checkpointId, delta } of sql.now(
    sql.all<{
      seq: number;
      thread: number;
      ns: string;
      checkpointId: string;
      delta: string;
    }>(DELTAS),
  )) {
    const threadId = sql.now(threadIdOf(sql, thread));
    const channels = JSON.parse(delta) as string[];
    if (succeeds(() => sql.now(deltaHistory(sql, threadId, ns, checkpointId, channels, NOTHING_REMEMBERED)))) continue;
    sql.now(sql.run("DELETE FROM langgraph_snapshots WHERE seq = ?", seq));
    const why = "ancestors are lost from whose writes its values are put together";
    cuts.lost.push({ table: "langgraph_snapshots", threadId, where: { seq, checkpointNs: ns, checkpointId }, why });
    removed += 1;
  }
  return removed;
}
