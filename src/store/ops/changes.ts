import type { Change, ChangesQuery, EffectChange, FoundChange, FoundChanges, Place, Told } from "../changes";
import { textFor } from "../dialect";
import { namespaceBelow } from "../namespaces";
import type { Program } from "../program";
import type { Session } from "../session";
import { firstSeq, SPAN, threadOfSeq } from "../spans";
import type { EFFECTS, RawOf, SNAPSHOTS, THREADS, TURNS } from "../tables";
import { deletionOf } from "./thread-rows";
import { toRewind, type RawRewind, type StoredRewind } from "./rewind-records";
import { REWIND_ROWS } from "../rows";

/*
 * What a follower reads. Contents aren't read, so neither are checksums verified: a change is a notice. To rely on a
 * row, read it.
 */

/** How many rows of each table are read at once. */
const ROWS_AT_ONCE = 250;
/** How many rows of a thread are watched that may change in place. The oldest are given up: they have stayed as they are for long. */
const OPEN_MAX = 1_000;

type RawThread = Pick<RawOf<typeof THREADS>, "thread" | "thread_id" | "seq" | "epoch" | "generation" | "pruned_seq" | "unswept">;
const STANDING = "SELECT thread, thread_id, seq, epoch, generation, pruned_seq, unswept FROM langgraph_threads";
const STANDING_OF = textFor(({ among }) => `${STANDING} WHERE thread_id ${among("?")}`);

/** SQL: a list of seqs as rows. The parameter is bound as texts in JSON. */
const seqs = (texts: string): string => `(SELECT CAST(value AS BIGINT) AS seq FROM (${texts}) AS given) AS a`;
const inThread = (row: string): string => `${row}.seq > a.seq AND ${row}.seq < (a.seq / ${SPAN} + 1) * ${SPAN}`;

const TURN_COLUMNS = [
  ...(["seq", "id", "node_name", "turn_type", "task_id", "created_at", "checkpoint_ns", "checkpoint_id"] as const),
  ...(["node_ns", "node_task_id", "step", "attempt", "status", "durable"] as const),
];
const SNAPSHOT_COLUMNS = [
  ...(["seq", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id", "source", "step", "created_at"] as const),
];
const EFFECT_COLUMNS = [
  ...(["seq", "id", "name", "label", "effect_key", "node_name", "node_task_id", "task_id", "status", "tries"] as const),
  ...(["started_at", "ended_at", "settled_by", "undo_status", "tried_seq"] as const),
];
type RawTurn = Pick<RawOf<typeof TURNS>, (typeof TURN_COLUMNS)[number]>;
type RawSnapshot = Pick<RawOf<typeof SNAPSHOTS>, (typeof SNAPSHOT_COLUMNS)[number]>;
type RawEffect = Pick<RawOf<typeof EFFECTS>, (typeof EFFECT_COLUMNS)[number]>;
const of = (row: string, columns: readonly string[]): string => columns.map((column) => `${row}.${column}`).join(", ");

/** Rows that belong to each seq of a list: all of them, or the first ones of all by their own seq. */
const withEach = (table: string, row: string, columns: readonly string[], condition: string, isPage = false) =>
  textFor(({ texts, eachWith }) => {
    const rows = eachWith(seqs(texts("?1")), table, row, condition, isPage ? "?2" : undefined);
    return `SELECT ${of(row, columns)} FROM ${rows}${isPage ? ` ORDER BY ${row}.seq LIMIT ?2` : ""}`;
  });
const turnsWith = (condition: string, isPage = false) =>
  withEach("langgraph_checkpoints", "t", TURN_COLUMNS, `t.thread = a.seq / ${SPAN} AND ${condition}`, isPage);
const effectsWith = (condition: string, isPage = false) => withEach("langgraph_effects", "e", EFFECT_COLUMNS, condition, isPage);

const TURNS_BEHIND = turnsWith("t.seq > a.seq", true);
const SNAPSHOTS_BEHIND = withEach("langgraph_snapshots", "s", SNAPSHOT_COLUMNS, inThread("s"), true);
const EFFECTS_BEHIND = effectsWith(inThread("e"), true);
const TURNS_AT = turnsWith("t.seq = a.seq");
const EFFECTS_AT = effectsWith("e.seq = a.seq");
const UNDONE_BEHIND = effectsWith(`${inThread("e")} AND e.undo_status IN ('done', 'failed')`);
const REWINDS_OF = textFor(({ among }) => REWIND_ROWS.select(`WHERE thread_id ${among("?")} ORDER BY seq`));
const OPEN_TURNS = turnsWith("t.turn_type = 'Action' AND t.durable = 0 AND t.status IN ('ok', 'handoff')");
const OPEN_EFFECTS = effectsWith(`${inThread("e")} AND e.status IN ('intent', 'failed')`);
/** Between a node's Action and its writes, a run holds the thread. */
const RUNNING = "SELECT DISTINCT thread_id FROM langgraph_runs";

const list = (values: readonly (number | string)[]): string => JSON.stringify(values.map(String));

/**
 * Where threads stand: for a follower that begins there.
 *
 * @param threadIds undefined for all
 * @param after tells only what is on a thread behind this seq
 */
export function* standing(session: Session, threadIds: readonly string[] | undefined, after?: number): Program<Place[]> {
  const threads = yield* threadsOf(session, threadIds);
  const rewinds = yield* rewindsOf(session, threadIds ?? threads.map(({ thread_id: id }) => id));
  const ids = threadIds ?? (yield* session.all<{ thread_id: string }>(RUNNING)).map(({ thread_id: id }) => id);
  const running = new Set(ids);
  const firsts = (of: readonly RawThread[]): string => list(of.map(({ thread }) => firstSeq(thread)));
  const turns = yield* session.all<RawTurn>(OPEN_TURNS(session), firsts(threads.filter((row) => running.has(row.thread_id))));
  const effects = yield* session.all<RawEffect>(OPEN_EFFECTS(session), firsts(threads));
  const open = new Map<number, Map<number, Told>>();
  const note = (seq: number, told: Told): void => {
    const thread = threadOfSeq(seq);
    open.set(thread, (open.get(thread) ?? new Map<number, Told>()).set(seq, told));
  };
  for (const { seq } of turns) if (seq !== null) note(seq, "action");
  for (const effect of effects) for (const [seq, told] of watched(effect)) note(seq, told);
  return threads.map((row) => {
    const place = { ...placeAt(row, rewinds.get(row.thread_id) ?? []), open: open.get(row.thread) ?? new Map<number, Told>() };
    if (after === undefined || threadOfSeq(after) !== row.thread || after >= place.seq) return place;
    return { ...place, seq: after, open: new Map([...place.open].filter(([seq]) => seq <= after)) };
  });
}

/** What has changed behind places. Everything is of one moment. */
export function* changesBehind(session: Session, { threadIds, places }: ChangesQuery): Program<FoundChanges> {
  const threads = yield* threadsOf(session, threadIds);
  const there = new Set(threads.map(({ thread }) => thread));
  const found: FoundChange[] = [];
  for (const place of places.values()) {
    if (there.has(place.thread)) continue;
    const deletedAt = yield* deletionOf(session, place.threadId);
    const at = deletedAt === 0 ? undefined : new Date(deletedAt);
    const change = { kind: "deleted", threadId: place.threadId, seq: place.seq, deletedAt: at } as const;
    found.push({ thread: place.thread, change, place: undefined });
  }
  const changed = threads
    .map((row) => ({ row, from: places.get(row.thread) ?? beginning(row) }))
    .filter(({ row, from }) => !stands(row, from))
    .toSorted((left, right) => left.row.thread - right.row.thread);
  if (changed.length === 0) return { found, places: [], hasMore: false };

  const read = yield* rowsBehind(session, changed);
  const rewinds = yield* rewindsOf(
    session,
    changed.filter(({ row, from }) => row.epoch !== from.epoch).map(({ row }) => row.thread_id),
  );
  const told: Place[] = [];
  for (const { row, from } of changed) {
    if (row.thread > threadOfSeq(read.horizon)) break;
    const isCut = row.thread === threadOfSeq(read.horizon);
    const of = new ThreadChanges(row, from, read.rows.get(row.thread) ?? [], rewinds.get(row.thread_id));
    yield* of.read(session);
    const last = of.found.at(-1);
    if (last === undefined) told.push(of.end);
    else if (!isCut) last.place = of.end;
    found.push(...of.found);
  }
  return { found, places: told, hasMore: read.horizon !== Infinity };
}

function* threadsOf(session: Session, threadIds: readonly string[] | undefined): Program<RawThread[]> {
  if (threadIds === undefined) return yield* session.all<RawThread>(STANDING);
  return yield* session.all<RawThread>(STANDING_OF(session), list(threadIds));
}

function* rewindsOf(session: Session, threadIds: readonly string[]): Program<Map<string, StoredRewind[]>> {
  const rewinds = new Map<string, StoredRewind[]>();
  if (threadIds.length === 0) return rewinds;
  for (const row of yield* session.all<RawRewind>(REWINDS_OF(session), list(threadIds))) {
    rewinds.set(row.thread_id, [...(rewinds.get(row.thread_id) ?? []), toRewind(session, row)]);
  }
  return rewinds;
}

interface Row {
  seq: number;
  change: Change;
  /** What is to be watched behind it. */
  open?: readonly (readonly [seq: number, told: Told])[];
  place?: (before: Place) => Partial<Place>;
}

interface Changed {
  row: RawThread;
  from: Place;
}

/** @returns the rows behind places, by thread; `horizon` is the last seq up to which all rows were read */
function* rowsBehind(session: Session, changed: readonly Changed[]): Program<{ rows: Map<number, Row[]>; horizon: number }> {
  const seqs = list(changed.map(({ from }) => from.seq));
  const idOf = new Map(changed.map(({ row }) => [row.thread, row.thread_id]));
  const threadId = (seq: number): string => idOf.get(threadOfSeq(seq)) ?? "";
  const turns = yield* session.all<RawTurn>(TURNS_BEHIND(session), seqs, ROWS_AT_ONCE);
  const snapshots = yield* session.all<RawSnapshot>(SNAPSHOTS_BEHIND(session), seqs, ROWS_AT_ONCE);
  const effects = yield* session.all<RawEffect>(EFFECTS_BEHIND(session), seqs, ROWS_AT_ONCE);
  const horizon = Math.min(
    ...[turns, snapshots, effects].map((all) => (all.length < ROWS_AT_ONCE ? Infinity : (all.at(-1)?.seq ?? Infinity))),
  );
  const rows = new Map<number, Row[]>();
  const add = (row: Row): void => {
    if (row.seq > horizon) return;
    const thread = threadOfSeq(row.seq);
    const known = rows.get(thread);
    if (known === undefined) rows.set(thread, [row]);
    else known.push(row);
  };
  for (const turn of turns) {
    const seq = turn.seq ?? 0;
    add({ seq, change: turnChange(threadId(seq), turn), ...(isSettled(turn) ? {} : { open: [[seq, "action"]] }) });
  }
  for (const row of snapshots) add({ seq: row.seq, change: checkpointChange(threadId(row.seq), row) });
  for (const row of effects) add({ seq: row.seq, change: effectChange(threadId(row.seq), row), open: watched(row) });
  return { rows, horizon };
}

/** The changes of one thread, in their order, each with the place behind it. */
class ThreadChanges {
  readonly found: FoundChange[] = [];
  readonly #row: RawThread;
  readonly #rows: readonly Row[];
  readonly #rewinds: readonly StoredRewind[] | undefined;
  readonly #from: Place;
  #place: Place;

  /** @param rewinds undefined if none has changed */
  constructor(row: RawThread, from: Place, rows: readonly Row[], rewinds: readonly StoredRewind[] | undefined) {
    this.#row = row;
    this.#from = from;
    this.#place = from;
    this.#rows = rows;
    this.#rewinds = rewinds;
  }

  /** The place behind all changes, up to the thread's newest number. */
  get end(): Place {
    const { open } = this.#place;
    const rewinds = this.#rewinds;
    const at = placeAt(this.#row, rewinds ?? []);
    const counts = rewinds === undefined ? { takenBack: this.#from.takenBack, abandoned: this.#from.abandoned } : {};
    return { ...at, ...counts, open };
  }

  /** First what isn't in the thread's order: removals, and rows that have changed in place. Then the new rows. */
  *read(session: Session): Program {
    const open = new Map([...this.#from.open].filter(([seq]) => seq <= this.#from.seq));
    const effects = open.size === 0 ? [] : yield* session.all<RawEffect>(EFFECTS_AT(session), list([...open.keys()]));
    const actions = [...open].filter(([, told]) => told === "action").map(([seq]) => seq);
    const turns = actions.length === 0 ? [] : yield* session.all<RawTurn>(TURNS_AT(session), list(actions));
    const targets = (this.#rewinds ?? []).filter(({ status }) => status === "undoing").map(({ targetSeq }) => targetSeq);
    const undone = targets.length === 0 ? [] : yield* session.all<RawEffect>(UNDONE_BEHIND(session), list(targets));
    this.#tellPruned();
    const rewinds = this.#rewindRows();
    for (const row of rewinds.filter(({ seq }) => seq <= this.#from.seq)) this.#tell(row.change, row.place?.(this.#place) ?? {});
    this.#tellInPlace(turns, [...effects, ...undone.filter(({ seq }) => !open.has(seq) && seq <= this.#from.seq)]);
    const rows = [...this.#rows, ...rewinds.filter(({ seq }) => seq > this.#from.seq)];
    for (const { seq, change, open: more, place } of rows.toSorted((left, right) => left.seq - right.seq)) {
      this.#tell(change, { seq, open: opened(without(this.#place.open, seq), more ?? []), ...place?.(this.#place) });
    }
  }

  #tell(change: Change, place: Partial<Place>): void {
    this.#place = { ...this.#place, ...place };
    this.found.push({ thread: this.#row.thread, change, place: this.#place });
  }

  #tellPruned(): void {
    const { thread_id: threadId, pruned_seq: prunedSeq, unswept, generation, epoch } = this.#row;
    if (!isPruned(this.#row, this.#from)) return;
    // What a rewind adds to the generation is told with the rewind.
    const place = { prunedSeq, unswept, generation: generation - (epoch - this.#from.epoch) };
    this.#tell({ kind: "pruned", threadId, seq: this.#from.seq, prunedSeq }, place);
  }

  /** A rewind that is taken back or abandoned keeps its seq. What is restored isn't told again. */
  #rewindRows(): Row[] {
    const rewinds = this.#rewinds ?? [];
    const begun = rewinds
      .filter(({ seq, status }) => seq > this.#from.seq && status !== "abandoned")
      .map((rewind) => ({ seq: rewind.seq, change: rewindChange(rewind, rewind.status === "done" ? "done" : "undoing") }));
    const abandoned = rewinds
      .filter(({ status }) => status === "abandoned")
      .slice(this.#from.abandoned)
      .map((rewind) => ({
        ...{ seq: rewind.seq, change: rewindChange(rewind, "abandoned") },
        place: (before: Place) => ({ abandoned: before.abandoned + 1 }),
      }));
    const takenBack = rewinds
      .filter(({ takenBackAt }) => takenBackAt !== undefined)
      .toSorted((left, right) => ((left.takenBackAt ?? "") < (right.takenBackAt ?? "") ? -1 : 1))
      .slice(this.#from.takenBack)
      .map((rewind) => ({
        ...{ seq: rewind.seq, change: rewindChange(rewind, "taken-back") },
        place: (before: Place) => ({ takenBack: before.takenBack + 1 }),
      }));
    return [...begun, ...abandoned, ...takenBack];
  }

  #tellInPlace(turns: readonly RawTurn[], effects: readonly RawEffect[]): void {
    const { thread_id: threadId } = this.#row;
    const before = this.#from.open;
    const there = new Set([...turns, ...effects].map(({ seq }) => seq));
    this.#place = { ...this.#place, open: new Map([...before].filter(([seq]) => there.has(seq) || seq > this.#from.seq)) };
    for (const turn of turns.filter(isSettled)) {
      this.#tell(turnChange(threadId, turn), { open: without(this.#place.open, turn.seq ?? 0) });
    }
    for (const effect of effects) {
      const change = effectChange(threadId, effect);
      const open = opened(without(this.#place.open, effect.seq), watched(effect));
      if (before.get(effect.seq) === change.what) this.#place = { ...this.#place, open };
      else this.#tell(change, { open });
    }
  }
}

function opened(open: ReadonlyMap<number, Told>, more: NonNullable<Row["open"]>): ReadonlyMap<number, Told> {
  return more.length === 0 ? open : new Map([...open, ...more].slice(-OPEN_MAX));
}

function without(open: ReadonlyMap<number, Told>, seq: number): ReadonlyMap<number, Told> {
  return open.has(seq) ? new Map([...open].filter(([other]) => other !== seq)) : open;
}

function placeAt(row: RawThread, rewinds: readonly StoredRewind[]): Place {
  return {
    threadId: row.thread_id,
    thread: row.thread,
    seq: firstSeq(row.thread) + row.seq,
    epoch: row.epoch,
    generation: row.generation,
    prunedSeq: row.pruned_seq,
    unswept: row.unswept,
    takenBack: rewinds.filter(({ takenBackAt }) => takenBackAt !== undefined).length,
    abandoned: rewinds.filter(({ status }) => status === "abandoned").length,
    open: new Map(),
  };
}

function beginning({ thread, thread_id: threadId }: RawThread): Place {
  const none = { epoch: 0, generation: 0, prunedSeq: 0, unswept: 0, takenBack: 0, abandoned: 0 };
  return { threadId, thread, seq: firstSeq(thread), ...none, open: new Map() };
}

/** Every commit on a thread takes a number of it. */
function stands(row: RawThread, { seq, epoch, generation }: Place): boolean {
  return firstSeq(row.thread) + row.seq === seq && row.epoch === epoch && row.generation === generation;
}

/** A rewind, and taking it back, changes epoch and generation; what swept up after a prune, only the generation. */
function isPruned(row: RawThread, { prunedSeq, unswept, epoch, generation }: Place): boolean {
  return row.pruned_seq !== prunedSeq || row.unswept > unswept || row.generation - generation > row.epoch - epoch;
}

function isSettled({ turn_type: type, durable, status }: RawTurn): boolean {
  return type === "Thought" || durable === 1 || (status !== "ok" && status !== "handoff");
}

/** Where its row may still change, and what has been told of it: also where it moves when its last try is known to have done it. */
function watched(effect: RawEffect): NonNullable<Row["open"]> {
  const { seq, tried_seq: tried, status, undo_status: undo } = effect;
  if (status !== "intent" && status !== "failed" && undo === null) return [];
  return [[seq, whatOf(effect)], ...(tried === null ? [] : [[tried, "begun"] as const])];
}

function whatOf({ status, settled_by: settledBy, undo_status: undo }: RawEffect): EffectChange["what"] {
  if (undo === "done") return "undone";
  if (undo === "failed") return "undo-failed";
  if (status === "intent") return "begun";
  if (settledBy !== null) return "resolved";
  return status === "done" ? "done" : "failed";
}

function turnChange(threadId: string, row: RawTurn): Change {
  const ns = row.checkpoint_ns ?? "";
  const nodeTaskId = row.node_task_id ?? "";
  return {
    ...{ kind: "turn", threadId, seq: row.seq ?? 0, id: row.id, turnType: row.turn_type, nodeName: row.node_name },
    ...{ taskId: row.task_id, createdAt: new Date(row.created_at) },
    ...{ checkpointNs: ns, checkpointId: row.checkpoint_id ?? undefined },
    ...{ nodeNs: row.node_ns ?? namespaceBelow(ns, `${row.node_name}:${nodeTaskId}`), nodeTaskId },
    ...{ step: row.step ?? 0, attempt: row.attempt ?? 1, status: row.status ?? undefined, durable: row.durable === 1 },
  };
}

function checkpointChange(threadId: string, row: RawSnapshot): Change {
  return {
    ...{ kind: "checkpoint", threadId, seq: row.seq, checkpointNs: row.checkpoint_ns, checkpointId: row.checkpoint_id },
    ...{ parentId: row.parent_checkpoint_id ?? undefined, source: row.source, step: row.step },
    createdAt: new Date(row.created_at),
  };
}

function effectChange(threadId: string, row: RawEffect): EffectChange {
  return {
    ...{ kind: "effect", threadId, seq: row.seq, what: whatOf(row), id: row.id, name: row.name, label: row.label },
    ...{ key: row.effect_key, nodeName: row.node_name, nodeTaskId: row.node_task_id, taskId: row.task_id, tries: row.tries },
    startedAt: new Date(row.started_at),
    endedAt: row.ended_at === null ? undefined : new Date(row.ended_at),
  };
}

function rewindChange(rewind: StoredRewind, what: "undoing" | "done" | "abandoned" | "taken-back"): Change {
  const { threadId, seq, id: rewindId, targetTaskId, targetSeq, createdAt, takenBackAt } = rewind;
  return {
    ...{ kind: "rewind", threadId, seq, what, rewindId, targetTaskId, targetSeq, createdAt: new Date(createdAt) },
    takenBackAt: takenBackAt === undefined ? undefined : new Date(takenBackAt),
  };
}
