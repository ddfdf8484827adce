import type { Execute, Program } from "./program";
import type { Awaitable } from "./store";

/**
 * What carries programs out: a database. Everything above it is the same for all of them, and relies on nothing but what is said here:
 * an engine may answer at once or later.
 */
export interface Engine {
  /** For messages: the file, or where the database is. */
  readonly name: string;
  readonly open: boolean;
  /** Of an engine that answers at once: carries a statement out. A program then runs without a stop at each. */
  readonly execute?: Execute;
  /**
   * Runs a program in one transaction that others see as a whole or not at all. Transactions, reading ones too, run one after the other in
   * the order in which they are handed in. What the program throws takes the transaction back.
   *
   * @param program makes the program anew for each attempt, while somebody else holds a lock for instance
   * @throws {StaleFacts} if others have written what the program took for known
   * @throws {CommitInDoubt} if the commit was sent, and nobody knows whether it was carried out
   * @throws {TurnsError} what a failure of the engine means
   */
  write<T>(program: () => Program<T>, durability?: "synced" | "unsynced"): Awaitable<T>;
  /** The same without writing: all that the program reads is one state of the database. */
  read<T>(program: () => Program<T>): Awaitable<T>;
  /** At the beginning of each transaction: whether others may have written since the last one of this engine, or that one was taken back. */
  hasChanged(): Program<boolean>;
  /** At the end of each transaction that wrote. */
  hasWritten(): void;
  /** A table's columns in their order, those that somebody else has added too. */
  columnsOf(table: string): Program<string[]>;
  /** What an error that a statement threw means, in our error family. */
  meaningOf(error: unknown): unknown;
  /** The engine's own code of an error that a statement threw; empty for an error that isn't the engine's. */
  codeOf(error: unknown): string;
  /** Whether an error says nothing about the program: the engine tries the whole transaction again. */
  isPassing(error: unknown): boolean;
}

/** Others have written what a transaction took for known. Nothing of it was applied; with what is read anew it may be tried again. */
export class StaleFacts extends Error {
  constructor() {
    super("others have written to the thread");
  }
}

/** The connection was lost when a commit had been sent. */
export class CommitInDoubt extends Error {
  constructor(override readonly cause: unknown) {
    super("nobody knows whether the commit was carried out", { cause });
  }
}
