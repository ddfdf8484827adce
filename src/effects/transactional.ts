import { AsyncLocalStorage } from "node:async_hooks";
import { decode, encode, type EncodeOptions } from "../codec";
import { TurnsError } from "../errors";
import { isSaver } from "../known-savers";
import { reasonOf } from "./failures";
import type { EffectTry } from "./types";

/**
 * Where a transactional effect does its work: your database, with a small table of completed effects in it. The functions of
 * `langgraph-checkpoint-turns/transactions` make them.
 *
 * @typeParam Db what `run` gets as `db`: the handle of the open transaction
 * @typeParam Sync whether the driver is synchronous
 */
export interface Transactions<Db, Sync extends boolean = false> {
  /** With a synchronous driver, the functions of its effects may not be `async`. */
  readonly isSync: Sync;
  /** The statement that creates the completion table, for your own migrations. */
  readonly createTableSql: string;
  /** Creates the completion table if it isn't there. The first effect does so by itself, unless `createTable` is false. */
  setup(): Promise<void>;
  /**
   * Deletes completion rows that are older than `olderThanMs`, of one thread if you name it. An effect whose row is gone can't be
   * looked up: choose an age that no crashed thread reaches before it is resumed.
   *
   * @returns how many rows are gone
   */
  prune(request: { olderThanMs: number; threadId?: string }): Promise<number>;
  /**
   * Runs `work` in one transaction with the effect's completion row, which keeps the text that `work` returns. If the effect is
   * complete already, `work` isn't called.
   *
   * @param journal what records the effect in the saver's journal, if that is in the same database
   * @returns the text that the completion row holds
   * @throws what `work` threw, as it is. {TurnsError} STORE_UNAVAILABLE, STORE_BUSY or STORE_FAILED if the database failed outside
   *   of `work`; EFFECT_FENCED if this try was canceled, or the effect undone; COMPLETIONS_UNAVAILABLE. Then it was rolled back.
   *   COMMIT_IN_DOUBT if nobody answered whether it was committed; STATE_INVARIANT_VIOLATED if `work` committed or rolled back by itself
   */
  complete(effect: EffectTry, work: (db: Db) => string | Promise<string>, journal?: JournalRow): Promise<string>;
  /** @returns the text of a completed effect; undefined if it isn't complete, though a transaction may still be open */
  find(effect: EffectTry): Promise<string | undefined>;
  /** Makes sure that this try and all earlier ones won't happen any more. @returns as {@link find}, for good */
  cancel(effect: EffectTry): Promise<string | undefined>;
  /**
   * Runs `work` in one transaction with the mark that the effect is undone. If it is undone already, `work` isn't called.
   *
   * @throws what `work` threw, as it is. {TurnsError} STORE_UNAVAILABLE, STORE_BUSY or STORE_FAILED if the database failed outside
   *   of `work`. Call it again: it knows whether it was committed
   */
  undo(effect: EffectTry, work: (db: Db) => unknown): Promise<void>;
}

/** The journal's row of an effect, for the transaction that does the effect: if both are in one database, they commit together. */
export interface JournalRow {
  /** Whether the journal is this saver's. */
  isOf(saver: unknown): boolean;
  /** A statement that fails where the journal can't be written. */
  readonly probe: string;
  /**
   * Once the effect's result is known: a statement that returns a row if it has recorded the effect. Undefined if the journal must
   * record it itself.
   */
  statement(): { sql: string; values: readonly (string | Uint8Array)[] } | undefined;
  /** The transaction has recorded the effect, and is committed. */
  recorded(): void;
}

/** Whether a value has a journal: a saver. */
export const isJournalOwner = isSaver;

/** {@link JournalRow} before the result is known. */
export interface JournalOfTry extends Omit<JournalRow, "statement"> {
  statement(result: unknown): ReturnType<JournalRow["statement"]>;
}

const MEMBERS = ["setup", "prune", "complete", "find", "cancel", "undo"] as const;

/** Transactions whose types aren't known here. */
export type AnyTransactions = Transactions<unknown, boolean>;

export function isTransactions(value: unknown): value is AnyTransactions {
  if (typeof value !== "object" || value === null) return false;
  const given = value as Record<string, unknown>;
  return typeof given["isSync"] === "boolean" && MEMBERS.every((member) => typeof given[member] === "function");
}

/** The effect that is in its transaction, by async context, for all copies of this package (ESM beside CommonJS). */
const current: AsyncLocalStorage<string> = ((globalThis as Record<symbol, unknown>)[
  Symbol.for("langgraph-checkpoint-turns.transaction")
] ??= new AsyncLocalStorage<string>()) as AsyncLocalStorage<string>;

/** @throws {TurnsError} EFFECT_IN_TRANSACTION within the function of a transactional effect */
export function refuseInTransaction(name: string): void {
  const around = current.getStore();
  if (around === undefined) return;
  throw new TurnsError("EFFECT_IN_TRANSACTION", {
    problem: `Effect ${JSON.stringify(name)} was called within the transaction of effect ${JSON.stringify(around)}.`,
    remedy:
      "A transaction can be rolled back, and what another effect did can't. Call them one after the other in the node. Nothing was done.",
    data: { name, within: around },
  });
}

/** Performs an effect in its transaction, or gives the result of the try that did. @throws as `complete`, and what `run` throws */
export async function performed<Db>(
  tx: Transactions<Db, boolean>,
  { journal, ...effect }: EffectTry & EncodeOptions & { journal: JournalOfTry },
  run: (db: Db) => unknown,
): Promise<unknown> {
  let own: { result: unknown; text: string } | undefined;
  const kept = (result: unknown): string => (own = { result, text: textOf(effect, result) }).text;
  const work = (db: Db): string | Promise<string> => {
    const result = current.run(effect.name, run, db);
    if (!isPromise(result)) return kept(result);
    if (tx.isSync) throw notSynchronous("run", effect, result);
    return Promise.resolve(result).then(kept);
  };
  const text = await tx.complete(effect, work, { ...journal, statement: () => journal.statement(own?.result) });
  return own?.text === text ? own.result : decode(text);
}

/** @returns undefined if the effect isn't complete. @param isFinal cancels it then, so that it never will be by this try */
export async function lookedUp<Db>(
  tx: Transactions<Db, boolean>,
  effect: EffectTry,
  isFinal: boolean,
): Promise<{ result: unknown } | undefined> {
  const text = await (isFinal ? tx.cancel(effect) : tx.find(effect));
  return text === undefined ? undefined : { result: decode(text) };
}

/** Calls an undo in its transaction, unless the effect is undone. */
export async function undoneIn<Db>(tx: Transactions<Db, boolean>, effect: EffectTry, run: (db: Db) => unknown): Promise<void> {
  await tx.undo(effect, (db) => {
    const result = current.run(effect.name, run, db);
    if (tx.isSync && isPromise(result)) throw notSynchronous("undo", effect, result);
    return result;
  });
}

/** @throws {TurnsError} UNSERIALIZABLE_VALUE */
function textOf(effect: EffectTry & EncodeOptions, result: unknown): string {
  try {
    return inAscii(encode(result, { classInstances: effect.classInstances }));
  } catch (error) {
    if (!TurnsError.is(error, "UNSERIALIZABLE_VALUE")) throw error;
    throw new TurnsError("UNSERIALIZABLE_VALUE", {
      problem: `The result of effect ${JSON.stringify(effect.name)} can't be saved: ${reasonOf(error, "result")}.`,
      remedy: "Its transaction was rolled back. Return plain data from its function, or nothing.",
      data: { ...error.data, name: effect.name, key: effect.key },
      cause: error,
    });
  }
}

/** The same JSON for a database of any encoding: only strings of it can have other characters. */
function inAscii(json: string): string {
  return json.replace(/[^\0-\x7f]/g, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** Queries of some libraries are promises too: they run when they are awaited. */
function isPromise(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === "function";
}

/** Whether a function says by itself that it returns a promise. */
export function isAsyncFunction(value: unknown): boolean {
  return typeof value === "function" && /^Async(Generator)?Function$/.test((value.constructor as { name: string }).name);
}

function notSynchronous(what: "run" | "undo", { name, key }: EffectTry, result: PromiseLike<unknown>): TurnsError {
  // Nobody waits for it. Only a real promise runs already; a query would begin here.
  if (result instanceof Promise) result.catch(() => undefined);
  return new TurnsError("INVALID_OPTION", {
    problem: `The \`${what}\` of effect ${JSON.stringify(name)} returned a promise, and its database is synchronous.`,
    remedy:
      "The transaction was rolled back; what the function does after its first await isn't part of any transaction. Write it without async and await.",
    data: { name, key, option: what },
  });
}
