import { createHash, type Hash } from "node:crypto";
import { TurnsError, type TurnsErrorCode } from "../errors";
import { ValueTranslation } from "./moved-values";
import type { Arrival, Departure, MoveCursor, MovedRow, MovedTo } from "./moves";
import { mismatch, threadExists } from "./move-failures";
import { ALL_TABLES, EFFECTS, fieldOf } from "./tables";
import type { Lease, RunRow, Store } from "./store";
import { othersFirst } from "../timers";

interface MoveOrder {
  from: Store;
  to: Store;
  threadId: string;
  /** What holds the thread in the source, and in the target. */
  here: Lease;
  there: Lease;
  /** A run of the thread that is left to recovery: it's the target's when the thread is there. */
  lost: RunRow | undefined;
  /** Whether the two have different keys for the addresses of values. */
  isTranslated: boolean;
  onProgress: ((progress: { threadId: string; phase: "copying" | "comparing"; rows: number }) => void) | undefined;
  /** Both sides are the same by then. @throws {TurnsError} CHECKPOINT_CORRUPTED if the source isn't whole */
  refuseDamage: () => Promise<void>;
  createId: () => string;
  now: () => string;
}

/** After this many tries, the thread is held before it is copied, so that it can't change any more. */
const TRIES_WHILE_WRITABLE = 2;
/** After another error, only the target can tell whether the thread was published. The next call asks it. */
const SURELY_UNPUBLISHED: readonly TurnsErrorCode[] = ["THREAD_EXISTS", "THREAD_DELETED", "MOVE_MISMATCH", "ENCRYPTED"];

/**
 * Moves a thread that is held on both sides. `ops/moves.ts` explains the steps.
 *
 * @returns how many rows were written; `isNew` is false if an earlier move had published it
 * @throws {TurnsError} see `moveThread`
 */
export async function moveRows(order: MoveOrder): Promise<{ isNew: boolean; rows: number }> {
  const { from, to, threadId } = order;
  let departure = await departureOf(order);
  const id = departure.movedTo?.id ?? order.createId();
  const before = await to.destination(threadId);
  const end = (): Promise<void> => Promise.resolve(from.endDeparture(threadId, id, order.now()));
  if (before.thread?.arrived === id) {
    await end();
    return { isNew: false, rows: 0 };
  }
  if (before.thread?.gone === false) throw threadExists(threadId);
  if (departure.movedTo !== undefined && departure.movedTo.deletion !== before.deletion) throw deletedThere(to.name, threadId);
  const movedTo: MovedTo = { id, to: to.name, at: order.now(), deletion: before.deletion };
  const wasHeld = departure.movedTo !== undefined;
  let isHeld = wasHeld;
  for (let tries = 1; ; tries += 1) {
    if (!isHeld && tries > TRIES_WHILE_WRITABLE) {
      isHeld = await from.holdDeparture(order.here, movedTo, undefined);
      departure = await departureOf(order);
    }
    const arrival = await to.beginArrival(order.there, departure.archives);
    let state: "hidden" | "publishing" | "published" = "hidden";
    let rows = 0;
    try {
      rows = await copied(order, departure, arrival);
      isHeld ||= await from.holdDeparture(order.here, movedTo, departure.stamp);
      if (isHeld) {
        state = "publishing";
        await to.publishArrival(arrival, id, departure, order.lost);
        state = "published";
      }
    } catch (error) {
      const isUnpublished = state === "hidden" || (TurnsError.is(error) && SURELY_UNPUBLISHED.includes(error.code));
      if (isHeld && !wasHeld && isUnpublished) await released(order, id);
      // Rows that were removed while others were read look like damage.
      const isTorn =
        !isHeld && TurnsError.is(error, "CHECKPOINT_CORRUPTED") && (await departureOf(order)).stamp !== departure.stamp;
      if (!isTorn) throw error;
    } finally {
      if (state !== "published") await abandoned(to, arrival);
    }
    if (state === "published") {
      await end();
      return { isNew: true, rows };
    }
    departure = await departureOf(order);
  }
}

/** How often a thread is read that is saved on meanwhile. */
const TRIES_OF_COPY = 5;

type CopyOrder = Omit<MoveOrder, "here" | "lost" | "now"> & {
  /** Whether the effects of the copy belong to the source. */
  inherits?: boolean;
};

/**
 * Copies a thread to a database where it isn't, and leaves it where it is. The source is only read.
 *
 * @returns how many rows were written
 * @throws {TurnsError} THREAD_NOT_FOUND, THREAD_EXISTS, THREAD_MOVED, REWIND_UNFINISHED; THREAD_RUNNING if it's saved on again and
 *   again meanwhile; MOVE_MISMATCH; and what the stores throw. Nothing is left in the target then.
 */
export async function copyRows(order: CopyOrder): Promise<number> {
  const { from, to, there, threadId } = order;
  for (let tries = 1; tries <= TRIES_OF_COPY; tries += 1) {
    const departure = await departureOf(order);
    if ((await to.destination(threadId)).thread?.gone === false) throw threadExists(threadId);
    const arrival = await to.beginArrival(there, departure.archives);
    let isPublished = false;
    const isUnchanged = async (): Promise<boolean> => (await from.departure(threadId))?.stamp === departure.stamp;
    try {
      const rows = await copied(order, departure, arrival);
      if (await isUnchanged()) {
        await to.publishArrival(arrival, order.createId(), departure);
        isPublished = true;
        return rows;
      }
    } catch (error) {
      // Rows that were removed while others were read look like damage.
      if (!TurnsError.is(error, "CHECKPOINT_CORRUPTED") || (await isUnchanged())) throw error;
    } finally {
      if (!isPublished) await abandoned(to, arrival);
    }
  }
  throw new TurnsError("THREAD_RUNNING", {
    problem: `Thread ${JSON.stringify(threadId)} was saved on while it was copied, ${TRIES_OF_COPY} times.`,
    remedy: "Nothing was copied. Try again when its run has finished.",
    data: { threadId },
  });
}

/** @throws {TurnsError} THREAD_NOT_FOUND if it was deleted meanwhile */
async function departureOf({ from, threadId }: Pick<MoveOrder, "from" | "threadId">): Promise<Departure> {
  const departure = await from.departure(threadId);
  if (departure !== undefined) return departure;
  throw new TurnsError("THREAD_NOT_FOUND", {
    problem: `Thread ${JSON.stringify(threadId)} was deleted during its move.`,
    remedy: "Nothing was moved.",
    data: { threadId },
  });
}

/** The next call lets the thread go otherwise. */
async function released({ from, here }: MoveOrder, id: string): Promise<void> {
  try {
    await from.releaseDeparture(here, id);
  } catch {
    // The move's own error is reported.
  }
}

/**
 * Writes all rows to the target, reads them there again, and compares both.
 * @returns how many there are
 * @throws {TurnsError} MOVE_MISMATCH, CHECKPOINT_CORRUPTED
 */
async function copied(order: CopyOrder, departure: Departure, arrival: Arrival): Promise<number> {
  const { from, to, threadId } = order;
  const source = { threadId, thread: departure.row.thread };
  const translation = order.isTranslated ? await translationOf(order, departure) : undefined;
  const written = new Digests();
  for await (const rows of pagesOf((cursor) => from.rowsToMove(source, cursor, translation?.lists))) {
    const translated = translation === undefined ? rows : rows.map((row) => translation.row(row));
    const moved = order.inherits === true ? translated.map(inherited) : translated;
    for (const row of moved) written.add(row);
    await to.saveMoved(arrival, moved);
    order.onProgress?.({ threadId, phase: "copying", rows: written.rows });
  }
  const read = new Digests();
  for await (const rows of pagesOf((cursor) => to.rowsToMove(arrival, cursor))) {
    for (const row of rows) read.add(row);
    order.onProgress?.({ threadId, phase: "comparing", rows: read.rows });
  }
  const difference = written.differenceTo(read);
  if (difference !== undefined) throw mismatch(threadId, difference, "others");
  await order.refuseDamage();
  return written.rows + departure.small.length;
}

/** The effects in archives too: taking a rewind back restores them. */
function inherited(row: MovedRow): MovedRow {
  return row.table === EFFECTS.name ? { ...row, fields: { ...row.fields, inherited: true } } : row;
}

/** @throws {TurnsError} CHECKPOINT_CORRUPTED */
async function translationOf(
  { from, to, threadId }: CopyOrder,
  { row: { thread }, small }: Departure,
): Promise<ValueTranslation> {
  const source = { threadId, thread };
  const lists = await from.listsToMove();
  for (const row of small) lists.note(row);
  const translation = new ValueTranslation(to, threadId, lists);
  for (const part of ["values", "archives"] as const) {
    for await (const rows of pagesOf((cursor) => from.partToMove(source, part, cursor))) {
      for (const row of rows) {
        translation.learn(row);
        lists.note(row);
      }
    }
  }
  translation.learned();
  return translation;
}

async function* pagesOf(read: (cursor?: MoveCursor) => ReturnType<Store["rowsToMove"]>): AsyncGenerator<MovedRow[]> {
  let page = await read();
  for (;;) {
    if (page.rows.length > 0) yield page.rows;
    if (page.next === undefined) return;
    // Timers and I/O of the process run between two pieces.
    await othersFirst();
    page = await read(page.next);
  }
}

/** Leaves what was written of a move that failed to the next cleaning up, which may be in another process. */
async function abandoned(to: Store, arrival: Arrival): Promise<void> {
  try {
    await to.abandonArrival(arrival);
    while (to.isOpen() && (await to.removeLeftovers(() => true))) await othersFirst();
  } catch {
    // The move's own error is reported.
  }
}

/** Digests of rows, table by table. Equal ones mean equal rows in the same order. */
class Digests {
  rows = 0;
  readonly #tables = new Map<string, Hash>();

  add({ table, fields, archived }: MovedRow): void {
    this.rows += 1;
    const name = archived === undefined ? table : "langgraph_archive";
    const digest = this.#tables.get(name) ?? createHash("sha256");
    this.#tables.set(name, digest);
    const columns = Object.entries(ALL_TABLES.find((one) => one.name === table)?.columns ?? {});
    const values = columns.map(([column, described]) => fields[fieldOf(column, described) ?? ""] ?? null);
    digest.update(`${JSON.stringify([table, archived ?? null, values])}\n`);
  }

  /** What the first table is called whose rows differ. */
  differenceTo(other: Digests): string | undefined {
    const names = [...new Set([...this.#tables.keys(), ...other.#tables.keys()])];
    const of = (digests: Digests, name: string): string | undefined => digests.#tables.get(name)?.copy().digest("hex");
    const name = names.find((one) => of(this, one) !== of(other, one));
    return name === undefined ? undefined : `the rows of ${name}`;
  }
}

const deletedThere = (name: string, threadId: string): TurnsError =>
  new TurnsError("THREAD_DELETED", {
    problem: `Thread ${JSON.stringify(threadId)} was deleted in ${name} after its move began.`,
    remedy:
      "The move may have been complete by then. Delete the thread in the source too, or use it there again: call saver.retention.reuseThread(threadId) on the source's saver.",
    data: { threadId },
  });
