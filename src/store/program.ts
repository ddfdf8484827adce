/** A value that a statement binds. */
export type Bound = string | number | null | Uint8Array;

/** One statement for the engine. `returns` names the form of its result. */
export interface Statement {
  readonly text: string;
  readonly values: readonly Bound[];
  /**
   * `one`: the first row or undefined. `all`: rows as objects. `arrays`: rows as arrays. `count`: how many rows were changed.
   * `none`: nothing; an engine that buffers sends the statement with the next one that is waited for.
   */
  readonly returns: "one" | "all" | "arrays" | "count" | "none";
  /** Of a guard: the number of the thread that it locks. An engine may send the guards of a buffer first, in this order. */
  readonly guards?: number;
  /** Sent in one piece with this one. The answer is then a list: its own, and those of these. For {@link Engine.sendsTogether}. */
  readonly others?: readonly Statement[];
  /** It may take long, because it reads a whole table: a server's silence doesn't mean that the connection is lost. */
  readonly isPatient?: boolean;
  /** Nothing follows: the commit is sent with it. */
  readonly isLast?: boolean;
}

/** A statement that asks. */
export function question(returns: Statement["returns"], text: string, ...values: Bound[]): Statement {
  return { text, values, returns };
}

/** Runs a statement. */
export type Execute = (text: string, values: readonly Bound[], returns: Statement["returns"]) => unknown;

/**
 * An operation, independent of the engine: it yields statements, gets their results, and returns its own. All statements of a
 * program run in one transaction, and an error rolls it back.
 *
 * An engine on the network answers later. SQLite answers at once, so its statements run where the program would yield them. A
 * program may be run again from the start, so it changes only the database and the facts that a failed transaction drops.
 */
export type Program<T = void> = Generator<Statement, T, unknown>;

/** `Array.map` with a program for each element, one after the other. */
export function* mapped<A, T>(items: Iterable<A>, work: (item: A) => Program<T>): Program<T[]> {
  const results: T[] = [];
  for (const item of items) results.push(yield* work(item));
  return results;
}

/** `Array.filter` with a program for each element. */
export function* filtered<A>(items: Iterable<A>, work: (item: A) => Program<boolean>): Program<A[]> {
  const kept: A[] = [];
  for (const item of items) if (yield* work(item)) kept.push(item);
  return kept;
}

/** `Array.some` with a program for each element; it stops at the first match. */
export function* anyOf<A>(items: Iterable<A>, work: (item: A) => Program<boolean>): Program<boolean> {
  for (const item of items) if (yield* work(item)) return true;
  return false;
}

/** A program with a fixed answer. */
// eslint-disable-next-line require-yield -- there is nothing to ask
export function* answered<T>(answer: T): Program<T> {
  return answer;
}
