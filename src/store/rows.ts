import { type Identity, type Part, plainSealing, type Sealing } from "../sealing";
import { namespaceBelow } from "./namespaces";
import { verifyChecksum } from "./refusals";
import type { Bound } from "./program";
import { fromSealedText, toSealedText } from "./sealed-text";
import type { TurnRow } from "./store";
import {
  ARCHIVE,
  CHUNKS,
  type Column,
  EFFECTS,
  fieldOf,
  GRAPHS,
  ITEMS,
  LISTS,
  NAMES,
  type RawOf,
  RECOVERIES,
  REWINDS,
  type RowOf,
  RUNS,
  SNAPSHOTS,
  type Table,
  TASKS,
  THREADS,
  TOMBSTONES,
  TURNS,
  WRITES,
} from "./tables";

type Fields = Readonly<Record<string, unknown>>;

/** The thread that a row belongs to or is written to; none for the turns of CheckpointPersister. */
export interface RowOwner {
  readonly thread: number | null;
  readonly threadId: string | undefined;
}

/**
 * Everything derived from the description of a table: its statements, and how its rows are written and read. Made once per table.
 * A row is an array in column order on the way in and out.
 */
export class Rows<T extends Table = Table> {
  readonly table: T;
  /** All columns, for a SELECT. */
  readonly columns: string;
  /** Takes {@link values}. */
  readonly insert: string;
  /** {@link insert} that replaces the row with the same id. */
  readonly save: string;
  /** Takes {@link changed}. */
  readonly update: string;
  readonly #names: readonly string[];
  readonly #fields: readonly (string | undefined)[];
  readonly #flags: readonly boolean[];
  readonly #owner: number;
  readonly #checksum: number;
  readonly #sealed: number;
  readonly #sealing: Column["sealed"];
  readonly #identity: readonly number[];
  readonly #signed: readonly number[];
  readonly #changing: readonly number[];

  constructor(table: T) {
    const columns = Object.entries<Column>(table.columns);
    const names = columns.map(([name]) => name);
    const where = (is: (column: Column) => boolean): number => columns.findIndex(([, column]) => is(column));
    const all = (is: (column: Column) => boolean): number[] =>
      names.flatMap((_, at) => (is(columns[at]?.[1] as Column) ? at : []));
    const ids = table.id ?? table.key;
    this.table = table;
    this.#names = names;
    this.#fields = columns.map(([name, column]) => fieldOf(name, column));
    this.#flags = columns.map(([, { isFlag }]) => isFlag === true);
    this.#owner = where(({ role }) => role === "owner");
    this.#checksum = where(({ role }) => role === "checksum");
    this.#sealed = where(({ sealed }) => sealed !== undefined);
    this.#sealing = columns[this.#sealed]?.[1].sealed;
    this.#identity = (this.#sealing?.by ?? []).map((name) => names.indexOf(name));
    this.#signed = all(({ role, isUnsigned }) => role === undefined && isUnsigned !== true);
    this.columns = names.join(", ");
    this.insert = `INSERT INTO ${table.name} (${this.columns}) VALUES (${names.map(() => "?").join(", ")})`;
    const replaced = names.filter((name) => !ids.includes(name)).map((name) => `${name} = excluded.${name}`);
    this.save = `${this.insert} ON CONFLICT (${ids.join(", ")}) DO UPDATE SET ${replaced.join(", ")}`;
    const changing = all(({ changes, role }) => changes === true || role === "checksum").map((at) => names[at] as string);
    this.#changing = [...changing, ...table.key].map((name) => names.indexOf(name));
    const is = (name: string): string => `${name} = ?`;
    this.update = `UPDATE ${table.name} SET ${changing.map(is).join(", ")} WHERE ${table.key.map(is).join(" AND ")}`;
  }

  /** @param rest what follows the name of the table: a constant */
  select(rest: string): string {
    return `SELECT ${this.columns} FROM ${this.table.name} ${rest}`;
  }

  /** {@link columns} of a table that the statement gives another name. */
  of(alias: string): string {
    return this.#names.map((name) => `${alias}.${name}`).join(", ");
  }

  /** A row as it is stored: sealed, and with its checksum. */
  values(sealing: Sealing, owner: RowOwner, row: RowOf<T>): Bound[] {
    const stored = this.#plain(sealing, owner, row);
    if (this.#sealing === undefined) return stored;
    const { form, kind } = this.#sealing;
    const sealed = sealing.seal(owner.threadId ?? "", this.#identityOf(kind, stored), stored[this.#sealed] as string);
    stored[this.#sealed] = form === "text" && typeof sealed !== "string" ? toSealedText(sealed) : sealed;
    return stored;
  }

  /** The parts of a row that are updated in place, and its key. */
  changed(sealing: Sealing, owner: RowOwner, row: RowOf<T>): Bound[] {
    const stored = this.#plain(sealing, owner, row);
    return this.#changing.map((at) => stored[at] as Bound);
  }

  /**
   * A row that was read: opened and verified.
   * @throws {TurnsError} CHECKPOINT_CORRUPTED, and what opening throws
   */
  parse(sealing: Sealing, threadId: string | undefined, raw: RawOf<T>): RowOf<T> {
    const plain = this.#opened(sealing, threadId, raw);
    this.#verify(sealing, threadId ?? "", plain);
    return this.#row(plain, threadId);
  }

  /** {@link parse} for rows that may be damaged: nothing is opened, and nothing verified. */
  unverified(threadId: string | undefined, raw: RawOf<T>): RowOf<T> {
    return this.#row(
      this.#names.map((name) => (raw as Fields)[name] as Bound),
      threadId,
    );
  }

  /**
   * The checksum that a stored row should have.
   * @throws what opening throws
   */
  checksum(sealing: Sealing, threadId: string, raw: RawOf<T>): string {
    return this.#checksumOf(sealing, threadId, this.#opened(sealing, threadId, raw));
  }

  #plain(sealing: Sealing, { thread, threadId }: RowOwner, row: RowOf<T>): Bound[] {
    const plain: Bound[] = [];
    for (let at = 0; at < this.#fields.length; at += 1) {
      const field = this.#fields[at];
      if (at === this.#owner) plain.push(thread);
      else if (field === undefined) plain.push(null);
      else {
        const value = (row as Fields)[field];
        plain.push(this.#flags[at] === true ? (value === true ? 1 : 0) : ((value ?? null) as Bound));
      }
    }
    if (this.#checksum >= 0) plain[this.#checksum] = this.#checksumOf(sealing, threadId ?? "", plain);
    return plain;
  }

  #opened(sealing: Sealing, threadId: string | undefined, raw: RawOf<T>): Bound[] {
    const plain: Bound[] = [];
    for (const name of this.#names) plain.push(((raw as Fields)[name] ?? null) as Bound);
    if (this.#sealing === undefined) return plain;
    const { form, kind } = this.#sealing;
    const stored = plain[this.#sealed] as string | Uint8Array;
    const bytes = form === "text" && typeof stored === "string" ? (fromSealedText(stored) ?? stored) : stored;
    plain[this.#sealed] = sealing.open(threadId ?? "", this.#identityOf(kind, plain), bytes);
    return plain;
  }

  /** The identity of a row's sealed column, besides its thread. */
  identity(raw: Fields): Identity {
    return [this.#sealing?.kind ?? "", ...this.#identity.map((at) => raw[this.#names[at] as string] as string | number)];
  }

  #identityOf(kind: string, plain: readonly Bound[]): Identity {
    return [kind, ...this.#identity.map((at) => plain[at] as string | number)];
  }

  #checksumOf(sealing: Sealing, threadId: string, plain: readonly Bound[]): string {
    const parts: Part[] = [this.table.called];
    for (const at of this.#signed) parts.push(plain[at] as Part);
    return sealing.checksum(threadId, ...parts);
  }

  /** Others may insert rows with only the seven columns of S1; such rows have no checksum. */
  #verify(sealing: Sealing, threadId: string, plain: readonly Bound[]): void {
    if (this.#checksum < 0) return;
    const stored = plain[this.#checksum];
    if (stored === null && !sealing.encrypted && this.table.columns["checksum"]?.nullable === true) return;
    const computed = this.#checksumOf(sealing, threadId, plain);
    if (stored === computed) return;
    const row = Object.fromEntries(this.#names.map((name, at) => [name, plain[at] as string | number | null]));
    const [what, data] = this.table.damaged?.(row, threadId) ?? [`a row of ${this.table.name}`, { threadId }];
    verifyChecksum(stored ?? "", computed, what, data);
  }

  #row(plain: readonly Bound[], threadId: string | undefined): RowOf<T> {
    const row: Record<string, unknown> = {};
    for (let at = 0; at < this.#fields.length; at += 1) {
      const field = this.#fields[at];
      if (field === undefined) continue;
      if (at === this.#owner) row[field] = plain[at] === null ? undefined : threadId;
      else row[field] = this.#flags[at] === true ? plain[at] === 1 : (plain[at] ?? undefined);
    }
    return row as RowOf<T>;
  }
}

export const ARCHIVED_ROWS = new Rows(ARCHIVE);
export const CHUNK_ROWS = new Rows(CHUNKS);
export const EFFECT_ROWS = new Rows(EFFECTS);
export const GRAPH_ROWS = new Rows(GRAPHS);
export const ITEM_ROWS = new Rows(ITEMS);
export const LIST_ROWS = new Rows(LISTS);
export const NAME_ROWS = new Rows(NAMES);
export const RECOVERY_ROWS = new Rows(RECOVERIES);
export const REWIND_ROWS = new Rows(REWINDS);
export const RUN_ROWS = new Rows(RUNS);
export const SNAPSHOT_ROWS = new Rows(SNAPSHOTS);
export const TASK_ROWS = new Rows(TASKS);
export const THREAD_ROWS = new Rows(THREADS);
export const TOMBSTONE_ROWS = new Rows(TOMBSTONES);
export const TURN_ROWS = new Rows(TURNS);
export const WRITE_ROWS = new Rows(WRITES);

/** {@link Rows} of any table. */
export interface AnyRows {
  readonly table: Table;
  readonly columns: string;
  readonly insert: string;
  select(rest: string): string;
  values(sealing: Sealing, owner: RowOwner, row: never): Bound[];
  identity(raw: Fields): Identity;
  parse(sealing: Sealing, threadId: string | undefined, raw: never): object;
  unverified(threadId: string | undefined, raw: never): object;
}

export const ALL_ROWS: readonly AnyRows[] = [
  ...[ARCHIVED_ROWS, CHUNK_ROWS, EFFECT_ROWS, GRAPH_ROWS, ITEM_ROWS, LIST_ROWS, NAME_ROWS, REWIND_ROWS, RUN_ROWS],
  ...[RECOVERY_ROWS, SNAPSHOT_ROWS, TASK_ROWS, THREAD_ROWS, TOMBSTONE_ROWS, TURN_ROWS, WRITE_ROWS],
];

export type RawTurn = RawOf<typeof TURNS>;

/** Anything with a sealing between rows and their texts. */
interface HasSealing {
  readonly sealing: Sealing;
}

/** The values that insert a turn. @param thread the number of its thread; null for one that belongs to none */
export function turnValues(session: HasSealing, thread: number | null, turn: TurnRow): Bound[] {
  return TURN_ROWS.values(sealingOf(session, thread), { thread, threadId: turn.threadId }, withoutUsual(turn));
}

/** The values that update what may change in a turn. */
export function changedTurn(session: HasSealing, turn: TurnRow): Bound[] {
  const sealing = turn.threadId === undefined ? plainSealing : session.sealing;
  return TURN_ROWS.changed(sealing, { thread: null, threadId: turn.threadId }, withoutUsual(turn));
}

/**
 * A row, verified. Rows that others inserted with only the seven columns of S1 have no checksum.
 *
 * @param threadId of the thread that it belongs to, if any
 */
export function toTurn(session: HasSealing, row: RawTurn, threadId: string | undefined): TurnRow {
  const turn = TURN_ROWS.parse(sealingOf(session, row.thread), row.thread === null ? undefined : threadId, row);
  if (row.thread !== null) turn.nodeNs ??= usualNamespace(turn);
  return turn;
}

/** Rows outside of any thread belong to CheckpointPersister, which has no keys. */
function sealingOf(session: HasSealing, thread: number | null): Sealing {
  return thread === null ? plainSealing : session.sealing;
}

/** Drops the namespace if the other columns tell it. */
function withoutUsual(turn: TurnRow): TurnRow {
  return turn.nodeNs !== undefined && turn.nodeNs === usualNamespace(turn) ? { ...turn, nodeNs: undefined } : turn;
}

function usualNamespace(turn: TurnRow): string | undefined {
  if (turn.nodeTaskId === undefined) return undefined;
  return namespaceBelow(turn.ns ?? "", `${turn.nodeName}:${turn.nodeTaskId}`);
}
