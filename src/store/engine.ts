import type { Dialect } from "./dialect";
import type { Execute, Program } from "./program";
import type { Awaitable } from "./store";

/**
 * A database that runs programs. Everything above it is the same for all engines and relies only on this contract: an engine may
 * answer at once or later.
 */
export interface Engine {
  /** For messages: the file, or where the database is. */
  readonly name: string;
  readonly open: boolean;
  readonly dialect: Dialect;
  /**
   * Whether statements that return nothing are sent with the next one that does, or with the commit. Their errors come then, and
   * may be those of another program in the transaction.
   */
  readonly buffers: boolean;
  /** Whether statements that need nothing of each other's answers can be sent in one piece ({@link Statement.others}). */
  readonly sendsTogether?: boolean;
  /** Only of an engine that answers at once: runs a statement. A program then runs without stopping at each one. */
  readonly execute?: Execute;
  /**
   * Runs a program in one transaction that others see as a whole or not at all. Transactions, including reads, run one after the
   * other in the order in which they are handed in. An error of the program rolls the transaction back.
   *
   * @param program makes a new program for each attempt, for instance while somebody else holds a lock
   * @param busyMs tries no longer than this, if the engine can wait for less than its own limit
   * @throws {StaleFacts} if others have changed what the program relied on
   * @throws {CommitInDoubt} if the commit was sent and its outcome is unknown
   * @throws {TurnsError} the meaning of an engine failure
   */
  write<T>(program: () => Program<T>, durability?: "synced" | "unsynced", busyMs?: number): Awaitable<T>;
  /** {@link write} without writing: everything the program reads is one state of the database. */
  read<T>(program: () => Program<T>): Awaitable<T>;
  /**
   * Runs at the beginning of each transaction: whether others may have written since this engine's last one, or that one was
   * rolled back.
   */
  hasChanged(): Program<boolean>;
  /** A value that differs from the last one if anybody has committed since; undefined if asking costs as much as reading. */
  version?(): unknown;
  /**
   * Grows when work begins or ends inside a transaction of the user's, who may still roll it back. What was remembered in there may
   * then be wrong. Undefined if only this package begins transactions.
   */
  readonly provisional?: number;
  /** Runs at the end of each transaction that wrote. */
  hasWritten(): void;
  /** A table's columns in their order, including those that somebody else has added. */
  columnsOf(table: string): Program<string[]>;
  /** Translates an error of a statement into our error family. */
  meaningOf(error: unknown): unknown;
  /** The engine's own code for an error of a statement; empty for an error that isn't the engine's. */
  codeOf(error: unknown): string;
  /** Whether an error says nothing about the program, so that the engine retries the whole transaction. */
  isPassing(error: unknown): boolean;
  /** Whether a statement was stopped before it was done. That says nothing about the rows either, and the same may take as long again. */
  isCancelled(error: unknown): boolean;
}

/** Others have changed what a transaction relied on. Nothing of it was applied; it can be tried again after reading again. */
export class StaleFacts extends Error {
  constructor() {
    super("others have written to the thread");
  }
}

/** The connection was lost after a commit had been sent. */
export class CommitInDoubt extends Error {
  /** @param isCommitted asks the database */
  constructor(
    override readonly cause: unknown,
    readonly isCommitted: () => Promise<boolean>,
  ) {
    super("nobody knows whether the commit was carried out", { cause });
  }
}
