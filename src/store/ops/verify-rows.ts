import { isId } from "../../system";
import { finished } from "../../values/memory";
import type { VerifyCounts } from "../integrity";
import type { Program } from "../program";
import { type AnyRows, LIST_ROWS, TOMBSTONE_ROWS } from "../rows";
import { firstSeq, ofThread, SPAN, threadOfSeq } from "../spans";
import {
  CHUNKS,
  EFFECTS,
  GRAPHS,
  ITEMS,
  LISTS,
  NAMES,
  type RawOf,
  RECOVERIES,
  REWINDS,
  type RowOf,
  SNAPSHOTS,
  type Table,
  TASKS,
  THREADS,
  TOMBSTONES,
  TURNS,
  VERSIONED,
  WRITES,
} from "../tables";
import { ListDigests } from "./list-digests";
import type { ListPointer } from "../store";
import { type RawRewind, toRewind } from "./rewind-records";
import { prunedTokensOf } from "../token-sums";
import { type AnyRow, openedRow, type References, referencesOf, rowsNamed } from "./row-references";
import { miscounted } from "./row-counts";
import { type RawThread, verifiedThread } from "./thread-rows";
import {
  type Owner,
  type Phase,
  type Place,
  saysNothing,
  stretchesOf,
  type VerifyContext,
  walk,
  type Where,
} from "./verify-context";

/** Whether a document is the one that was stored under the digest. */
export type IsGraph = (digest: string, document: string) => boolean;

/** How the rows of one table are checked, beyond the checks for all tables: thread, number, checksum, references, versions. */
interface Look {
  table: Table & { called: keyof VerifyCounts };
  limit: number;
  /** The columns that a report names a row by. */
  named: readonly string[];
  ids?: readonly string[];
  /**
   * The rule for this table alone.
   * @param row undefined if it doesn't verify
   */
  rule?: (ctx: VerifyContext, at: Place, owner: Owner, raw: AnyRow, row: Row | undefined) => Program;
}
type Row = Readonly<Record<string, unknown>>;

/**
 * All tables with rows of threads. Checkpoints come by seq, thread by thread, so that each digest of a list continues from the
 * one before.
 */
export function rowsOfTables(only: Owner | undefined, isGraph: IsGraph): Phase[] {
  const checkpoint = ["seq", "checkpoint_ns", "checkpoint_id"];
  const looks: Look[] = [
    { table: TASKS, limit: 100, named: ["thread", "seq"], ids: ["task_id", "graph_id"], rule: checkTask },
    { table: SNAPSHOTS, limit: 8, named: checkpoint, rule: checkSnapshot },
    { table: CHUNKS, limit: 8, named: ["seq", "address"] },
    { table: LISTS, limit: 100, named: ["seq"], rule: checkList },
    { table: ITEMS, limit: 200, named: ["list", "pos", "seq"], rule: checkItem },
    { table: WRITES, limit: 20, named: [...checkpoint, "node_task_id", "idx"], rule: checkWrites },
    { table: TURNS, limit: 20, named: ["id", "seq"], rule: checkTurn },
    { table: GRAPHS, limit: 20, named: ["seq"], rule: graphRule(isGraph) },
    { table: EFFECTS, limit: 20, named: ["seq", "id"], rule: checkEffect },
    { table: NAMES, limit: 100, named: ["thread", "name"], ids: ["name"], rule: checkName },
    { table: RECOVERIES, limit: 100, named: ["thread"] },
  ];
  return looks.flatMap((look) => phasesOf(look, only));
}

function phasesOf(look: Look, only: Owner | undefined): Phase[] {
  const { table, limit } = look;
  const rows = rowsNamed(table.name) as AnyRows;
  const digests = table === SNAPSHOTS ? new ListDigests() : undefined;
  const check = (ctx: VerifyContext, raw: AnyRow): Program<boolean> => checkRow(ctx, look, rows, raw, digests);
  // Each digest of a list continues from the one before.
  const inOrder = digests !== undefined;
  return stretchesOf(table, only).map((stretch) =>
    walk<AnyRow>({
      ...{ table: table.name, counts: table.called, limit, inOrder, check, ...stretch },
      threadOf: (raw) => threadOf(table, raw),
    }),
  );
}

/** The number of the thread that a row belongs to. An element of a list has only its list's. */
function threadOf(table: Table, raw: AnyRow): number | undefined {
  const { thread } = raw;
  if (table === ITEMS) return threadOfSeq(Number(raw["list"]));
  return thread === null ? undefined : Number(thread);
}

function* checkRow(
  ctx: VerifyContext,
  look: Look,
  rows: AnyRows,
  raw: AnyRow,
  digests: ListDigests | undefined,
): Program<boolean> {
  const { table, named, rule } = look;
  const where = Object.fromEntries(named.map((name) => [whereName(name), raw[name]])) as Where;
  const thread = threadOf(table, raw);
  if (thread === undefined) {
    checkAlone(ctx, ctx.at(undefined, where), rows, raw);
    return false;
  }
  const known = digests && (yield* ctx.owner(thread));
  const flaws = known === undefined ? [] : yield* listFlaws(ctx, known, raw, digests as ListDigests);
  if (flaws === undefined) return true;
  const owner = yield* ctx.entered(thread, raw["seq"], where);
  const at = ctx.at(owner?.threadId, where);
  checkForms(at, raw, look.ids ?? [], table === TASKS || table === NAMES ? ["created_at"] : []);
  if (owner === undefined) return false;
  const row = at.attempt(() => openedRow(ctx.session, rows, owner.threadId, raw));
  const references = row && at.attempt(() => referencesOf(table, row));
  const versions = VERSIONED.find(({ name }) => name === table.name);
  yield* ctx.session.sideBySide([
    ...(references === undefined ? [] : [at.attempted(ctx.refersTo(owner, at, references))]),
    ...(versions === undefined ? [] : [at.attempted(checkVersions(ctx, at, versions, raw as never))]),
    ...(rule === undefined ? [] : [at.attempted(rule(ctx, at, owner, raw, row))]),
  ]);
  for (const { list, length, digest, found } of row === undefined ? [] : flaws) {
    const expected = `${length} elements with digest ${digest.slice(0, 12)}…`;
    ctx.at(owner.threadId, { ...where, list, length }).problem("checksum", expected, found);
  }
  return false;
}

function whereName(column: string): string {
  return column.replaceAll(/_(.)/g, (_, letter: string) => letter.toUpperCase());
}

/**
 * A turn without a thread has no number. Others may insert rows with only the seven columns of S1; those have no checksum either.
 */
function checkAlone(ctx: VerifyContext, at: Place, rows: AnyRows, raw: AnyRow): void {
  if (raw["seq"] !== null) at.problem("format", "no seq in a turn of no thread", String(raw["seq"]));
  else at.attempt(() => openedRow(ctx.session, rows, undefined, raw));
}

function checkForms(at: Place, raw: object, ids: readonly string[], times: readonly string[]): void {
  const values = raw as Readonly<Record<string, unknown>>;
  for (const id of ids) if (!isId(values[id])) at.problem("format", `an id in ${id}`, "none");
  for (const time of times) if (Number.isNaN(Date.parse(String(values[time])))) at.problem("format", `a time in ${time}`, "none");
}

/** All versions of one thing but the newest are superseded, each by the next one. */
function* checkVersions<T extends (typeof VERSIONED)[number]>(
  ctx: VerifyContext,
  at: Place,
  { name: table, versionsOf }: T,
  raw: RawOf<T>,
): Program {
  const same = `${versionsOf.map((column) => `${column} = ?`).join(" AND ")} AND seq > ?`;
  const values = [...versionsOf, "seq"].map((column) => (raw as unknown as Record<string, string | number>)[column] as string);
  const by = raw.superseded_by;
  const newer = `SELECT min(seq) AS seq FROM ${table} WHERE ${same}`;
  const next = yield* ctx.session.get<{ seq: number | null }>(
    by === null ? `${newer} AND superseded_by IS NULL` : newer,
    ...values,
  );
  const found = next?.seq ?? null;
  if (by === null && found !== null)
    at.problem("superseded", "one version that is not superseded", `another one, with seq ${found}`);
  if (by !== null && found !== by)
    at.problem("superseded", "the next version, which supersedes it", `seq ${by}, which is not that`);
}

/** The lists of a checkpoint that aren't what it saw; undefined if checking takes longer than the step. */
function* listFlaws(
  ctx: VerifyContext,
  owner: Owner,
  raw: AnyRow,
  digests: ListDigests,
): Program<(ListPointer & { found: string })[] | undefined> {
  const flaws: (ListPointer & { found: string })[] = [];
  for (const pointer of pointersOf(ctx, owner, raw)) {
    if (pointer.kind !== "list") continue;
    const found = yield* foundInstead(ctx, owner, pointer, digests);
    if (found === undefined) return undefined;
    if (found !== "") flaws.push({ ...pointer, found });
  }
  return flaws;
}

/** What was found in place of a list, empty if it's right; undefined if checking takes longer. */
function* foundInstead(
  ctx: VerifyContext,
  owner: Owner,
  pointer: ListPointer,
  digests: ListDigests,
): Program<string | undefined> {
  try {
    const running = yield* digests.of(ctx.session, owner, pointer, () => ctx.isOver);
    if (running === undefined || "broken" in running) return running?.broken;
    const digest = finished(running, (text) => ctx.session.sealing.address(owner.threadId, text));
    return digest === pointer.digest ? "" : `elements with digest ${digest.slice(0, 12)}…`;
  } catch (error) {
    const { engine } = ctx.session;
    if (saysNothing(engine, error)) throw error;
    const code = engine.codeOf(error);
    // The rest of the row can't be read in this transaction either, so the error is reported for the whole row.
    if (code !== "" && engine.sendsTogether === true) throw error;
    return `elements that do not open (${code !== "" ? code : error instanceof Error ? error.name : "Error"})`;
  }
}

/** Ignores failures: they are reported once, after the row's lists. */
function pointersOf(ctx: VerifyContext, owner: Owner, raw: AnyRow): References["pointers"] {
  try {
    return referencesOf(SNAPSHOTS, openedRow(ctx.session, rowsNamed(SNAPSHOTS.name) as AnyRows, owner.threadId, raw)).pointers;
  } catch {
    return [];
  }
}

const STORED = `SELECT 1 FROM ${SNAPSHOTS.name} WHERE thread = ? AND checkpoint_ns = ? AND checkpoint_id = ?`;
const ELSEWHERE = `SELECT seq FROM ${SNAPSHOTS.name} WHERE thread = ?1 AND checkpoint_ns = ?2 AND checkpoint_id = ?3 AND position <> ?4
  UNION ALL SELECT seq FROM ${SNAPSHOTS.name} WHERE thread = ?1 AND checkpoint_ns = ?2 AND position = ?4 AND checkpoint_id <> ?3 LIMIT 1`;

/** Whether any version of the checkpoint is stored. */
function* isStored(ctx: VerifyContext, { thread }: Owner, ns: string, checkpointId: string): Program<boolean> {
  return (yield* ctx.session.get(STORED, thread, ns, checkpointId)) !== undefined;
}

/**
 * Its parent exists, unless it was pruned or never was in this file: a config may name any checkpoint. All its versions share one
 * position, which is the seq of the first of them and of no other checkpoint.
 */
function* checkSnapshot(ctx: VerifyContext, at: Place, owner: Owner, raw: AnyRow): Program {
  const { checkpoint_ns: ns, checkpoint_id: id, parent_checkpoint_id: parent, position, seq } = raw as RawOf<typeof SNAPSHOTS>;
  if (parent !== null && !(yield* isStored(ctx, owner, ns, parent))) {
    const isLost = owner.row.prunedSeq === 0 && (yield* ctx.lacksCheckpoints(owner));
    at[isLost ? "problem" : "remark"]("reference", `checkpoint ${parent}, its parent`, "none of that id");
  }
  const other = yield* ctx.session.get<{ seq: number }>(ELSEWHERE, owner.thread, ns, id, position);
  if (other === undefined && position > firstSeq(owner.thread) && position <= seq) return;
  const found = other === undefined ? `${position}, which is none` : `${position}, and another one with seq ${other.seq}`;
  at.problem("sequence", "the position at which the checkpoint was first saved", found);
}

type ListRow = RawOf<typeof LISTS>;
const LIST = LIST_ROWS.select("WHERE seq = ?");
const ITEM = "SELECT seq FROM langgraph_items WHERE list = ? AND pos = ?";
const CHUNK_THREAD = "SELECT thread FROM langgraph_chunks WHERE seq = ?";

function* checkList(ctx: VerifyContext, at: Place, _: Owner, raw: AnyRow): Program {
  const { seq, thread, base: baseSeq, keep } = raw as ListRow;
  if (baseSeq === null) {
    if (keep !== 0) at.problem("list", "a list without a base that keeps nothing of it", `keep ${keep}`);
    return;
  }
  const base = baseSeq < seq ? yield* ctx.session.get<ListRow>(LIST, baseSeq) : undefined;
  if (base?.thread !== thread) return at.problem("list", "an older list of the thread as its base", `list ${baseSeq}`);
  // A list that lost its own elements may have a base that lost some too: then nothing refers to them.
  const isUsed = keep > base.keep && (yield* ctx.session.get(ITEM, seq, keep)) !== undefined;
  const isShort = isUsed && (yield* ctx.session.get(ITEM, base.seq, keep - 1)) === undefined;
  if (keep < 1 || isShort) at.problem("list", `a base of ${keep} elements or more`, "fewer");
}

function* checkItem(ctx: VerifyContext, at: Place, { thread }: Owner, raw: AnyRow): Program {
  const { list: listSeq, pos, seq, chunk: chunkSeq } = raw as RawOf<typeof ITEMS>;
  const list = yield* ctx.session.get<ListRow>(LIST, listSeq);
  if (list === undefined) return at.problem("list", "an element of a list", "one of none");
  if (pos < list.keep) at.problem("list", `a position from ${list.keep} on`, String(pos));
  if (seq <= listSeq) at.problem("sequence", "a seq behind the list's", String(seq));
  if (pos > list.keep) {
    const before = yield* ctx.session.get<{ seq: number }>(ITEM, listSeq, pos - 1);
    if (before === undefined) at.problem("list", "elements without gaps", `none at position ${pos - 1}`);
    else if (before.seq >= seq) at.problem("sequence", "a seq behind the element before", String(seq));
  }
  const chunk = yield* ctx.session.get<{ thread: number }>(CHUNK_THREAD, chunkSeq);
  if (chunk?.thread === thread) return;
  const found = chunk === undefined ? "none" : `one of thread number ${chunk.thread}`;
  at.problem("reference", `chunk ${chunkSeq} of the thread`, found);
}

/** With durability "exit", writes come before their checkpoint. A crash in between leaves writes without one. */
function* checkWrites(ctx: VerifyContext, at: Place, owner: Owner, raw: AnyRow): Program {
  const { checkpoint_ns: ns, checkpoint_id: id } = raw as RawOf<typeof WRITES>;
  if (yield* isStored(ctx, owner, ns, id)) return;
  at.remark("reference", `checkpoint ${id}, which the writes belong to`, "none of that id");
}

// eslint-disable-next-line require-yield -- the row tells it
function* checkTask(_: VerifyContext, at: Place, __: Owner, ___: AnyRow, row: Row | undefined): Program {
  if (row === undefined) return;
  try {
    prunedTokensOf(row as unknown as RowOf<typeof TASKS>);
  } catch {
    at.problem("format", "token sums of pruned turns", "something else");
  }
}

const THOUGHT = `SELECT 1 FROM ${TURNS.name} WHERE thread = ? AND node_task_id = ? AND turn_type = 'Thought' AND attempt = ? AND +seq < ?`;
const GRAPH = "SELECT 1 FROM langgraph_graphs WHERE seq = ? AND thread = ?";

function* checkTurn(ctx: VerifyContext, at: Place, owner: Owner, raw: AnyRow, row: Row | undefined): Program {
  const { seq, checksum, checkpoint_ns: ns, checkpoint_id: id, graph, node_task_id: nodeTaskId } = raw as RawOf<typeof TURNS>;
  if (seq === null) at.problem("format", "a turn with a seq", "one without");
  if (checksum === null) at.problem("checksum", "a turn with a checksum", "one without");
  if (row === undefined) return;
  if (id !== null && !(yield* isStored(ctx, owner, ns ?? "", id))) {
    at.remark("reference", `checkpoint ${id}, which the turn started from`, "none of that id");
  }
  if (graph !== null && (yield* ctx.session.get(GRAPH, graph, owner.thread)) === undefined) {
    at.problem("reference", `graph ${graph} of the thread`, "none");
  }
  if (raw["turn_type"] !== "Action") return;
  const attempt = Number(raw["attempt"] ?? 1);
  if ((yield* ctx.session.get(THOUGHT, owner.thread, nodeTaskId ?? "", attempt, seq ?? 0)) !== undefined) return;
  // An Action takes the checkpoint from its Thought. Without one, the Thought couldn't be saved, and the graph continued (S1.9).
  at[id === null ? "remark" : "problem"]("turn", `the Thought of attempt ${attempt}`, "none");
}

function graphRule(isGraph: IsGraph): Look["rule"] {
  // eslint-disable-next-line require-yield -- the document tells it
  return function* (_, at, __, raw) {
    const { digest, document } = raw as RawOf<typeof GRAPHS>;
    if (!isGraph(digest, document)) at.problem("checksum", `the document of digest ${digest.slice(0, 12)}…`, "another text");
  };
}

/** An effect may outlive its turn: it stays true outside, no matter what is rewound here. */
// eslint-disable-next-line require-yield -- the row and its thread tell it
function* checkEffect(_: VerifyContext, at: Place, owner: Owner, { epoch }: AnyRow): Program {
  if (Number(epoch) > owner.row.epoch) at.problem("sequence", `an epoch up to the thread's, ${owner.row.epoch}`, String(epoch));
}

const NAMED = `${STORED} AND superseded_by IS NULL`;

function* checkName(ctx: VerifyContext, at: Place, { thread }: Owner, raw: AnyRow): Program {
  const { checkpoint_ns: ns, checkpoint_id: id } = raw as RawOf<typeof NAMES>;
  if ((yield* ctx.session.get(NAMED, thread, ns, id)) !== undefined) return;
  at.problem("reference", `checkpoint ${id}, which has the name`, "none of that id");
}

const NO_SEQ = "SELECT id FROM langgraph_checkpoints WHERE thread = ? AND seq IS NULL LIMIT 1";
const FINAL = "SELECT 1 FROM langgraph_tombstones WHERE thread_id = ? AND final = 1";
const EPOCHS = `SELECT coalesce(sum(CASE WHEN taken_back_at IS NULL THEN 1 ELSE 2 END), 0) AS n FROM langgraph_rewinds
  WHERE thread_id = ? AND status = 'done'`;
const FIRST_TASK = "SELECT min(seq) AS seq FROM langgraph_tasks WHERE thread = ?";
const FIRST_ROW = `SELECT min(seq) AS seq FROM (
  SELECT min(seq) AS seq FROM langgraph_snapshots WHERE ${ofThread()} UNION ALL
  SELECT min(seq) FROM langgraph_writes WHERE ${ofThread()} UNION ALL
  SELECT min(seq) FROM langgraph_checkpoints WHERE thread = ?1) AS rows`;

export function threads(only: Owner | undefined): Phase {
  const [stretch] = stretchesOf(THREADS, only);
  return walk<RawThread>({ table: THREADS.name, keys: THREADS.key, ...stretch, limit: 20, check });

  function* check(ctx: VerifyContext, row: RawThread): Program {
    const { session } = ctx;
    const { thread, thread_id: threadId } = row;
    const at = ctx.at(threadId, { thread });
    ctx.threads += 1;
    yield* at.attempted(verifiedThread(session, threadId, row));
    const wrong = yield* miscounted(session, { thread, threadId });
    if (wrong !== undefined) at.problem("thread", `${wrong.expected} rows of ${wrong.kind}, as on record`, String(wrong.found));
    checkForms(at, row, ["thread_id"], ["created_at"]);
    if (row.generation < 0 || row.unswept < 0 || row.seq < 0 || row.seq >= SPAN)
      at.problem("format", "counters within their bounds", "one that is not");
    const [first, newest] = [firstSeq(thread), firstSeq(thread) + row.seq];
    if (row.pruned_seq !== 0 && !(row.pruned_seq >= first && row.pruned_seq <= newest))
      at.problem("sequence", `a pruned_seq of 0, or from ${first} to ${newest}`, String(row.pruned_seq));
    const epochs = (yield* session.get<{ n: number }>(EPOCHS, threadId))?.n ?? 0;
    if (row.epoch < epochs) at.problem("sequence", `an epoch of ${epochs} or more`, String(row.epoch));
    // The walk through a thread's turns follows their seqs.
    const unnumbered = only && (yield* session.get<{ id: string }>(NO_SEQ, thread));
    if (unnumbered !== undefined)
      ctx.at(threadId, { thread, id: unnumbered.id }).problem("format", "turns with a seq", "one without");
    if ((yield* session.get(FINAL, threadId)) !== undefined)
      at.problem("thread", "no thread where one was deleted for good", "a thread");
    yield* checkOwned(ctx, thread, threadId);
  }
}

/** Every saved row belongs to a task, which takes its number first. */
function* checkOwned(ctx: VerifyContext, thread: number, threadId: string): Program {
  const seq = (yield* ctx.session.get<{ seq: number | null }>(FIRST_ROW, thread))?.seq ?? undefined;
  const task = (yield* ctx.session.get<{ seq: number | null }>(FIRST_TASK, thread))?.seq ?? undefined;
  if (seq === undefined || (task !== undefined && task < seq)) return;
  const found = task === undefined ? "none" : `one that begins at ${task}`;
  ctx.at(threadId, { thread, seq }).problem("task", "a task that begins before the thread's first row", found);
}

export function tombstones(only: Owner | undefined): Phase {
  const [stretch] = stretchesOf(TOMBSTONES, only);
  return walk<RawOf<typeof TOMBSTONES>>({
    table: TOMBSTONES.name,
    keys: TOMBSTONES.key,
    ...stretch,
    limit: 100,
    // eslint-disable-next-line require-yield -- the row tells it
    *check(ctx, row) {
      const { thread_id: threadId, deleted_at: deletedAt } = row;
      const at = ctx.at(threadId);
      at.attempt(() => TOMBSTONE_ROWS.parse(ctx.session.sealing, threadId, row));
      checkForms(at, row, ["thread_id"], []);
      if (!(deletedAt > 0)) at.problem("format", "the time of a deletion", String(deletedAt));
    },
  });
}

const ARCHIVED = "SELECT count(*) AS n FROM langgraph_archive WHERE rewind_id = ?";
/** An earlier rewind that was taken back after this one has restored checkpoints of its own range. */
const BETWEEN = `SELECT seq FROM langgraph_snapshots AS s WHERE seq > ?1 AND seq < ?2 AND NOT EXISTS (
  SELECT 1 FROM langgraph_rewinds AS r WHERE r.thread_id = ?3 AND r.taken_back_at IS NOT NULL AND r.seq < ?2
    AND s.seq > r.target_seq AND s.seq < r.seq) LIMIT 1`;

export function rewinds(only: Owner | undefined): Phase {
  const [stretch] = stretchesOf(REWINDS, only);
  const { name: table, called: counts } = REWINDS;
  return walk<RawRewind>({ table, counts, keys: ["rowid"], ...stretch, limit: 20, check: checkRewind });
}

function* checkRewind(ctx: VerifyContext, row: RawRewind): Program {
  const { id, thread_id: threadId, target_seq: target, seq, taken_back_at: takenBackAt } = row;
  const at = ctx.at(threadId, { id });
  const owner = yield* ctx.ownerOf(threadId);
  if (owner === undefined) return at.problem("thread", "a rewind of a thread", "a thread that is not there");
  checkForms(at, row, [], takenBackAt === null ? ["created_at"] : ["created_at", "taken_back_at"]);
  at.attempt(() => toRewind(ctx.session, row));
  const archived = (yield* ctx.session.get<{ n: number }>(ARCHIVED, id))?.n ?? 0;
  const isArchived = row.status === "done" && row.archived === 1 && takenBackAt === null;
  const expected = isArchived ? row.entries : 0;
  if (archived !== expected) at.problem("archive", `an archive of ${expected} rows`, `one of ${archived}`);
  // A rewind's numbers aren't final until it is done.
  if (row.status !== "done") return;
  yield* ctx.numbered(owner.thread, seq, owner, at);
  if (target >= seq) at.problem("sequence", `a target before the rewind, ${seq}`, String(target));
  if (takenBackAt !== null) return;
  const from = Math.max(target, firstSeq(owner.thread));
  const between = yield* ctx.session.get<{ seq: number }>(BETWEEN, from, seq, threadId);
  if (between !== undefined) at.problem("sequence", "nothing left of what was rewound", `a checkpoint with seq ${between.seq}`);
}
