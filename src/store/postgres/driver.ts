import { ConnectionLost, meaningOfRefusal, PoolCrowded, sqlState } from "./failures";
import { PARSE, UnknownType } from "./values";

/*
 * What this package needs of `pg`, as structural types. A `pg.Pool` satisfies them, so users need no types of `pg` to compile
 * against ours.
 */

/** A `pg.Pool`. */
export interface PgPool {
  connect(): Promise<PgClient>;
  on(event: "error", listener: (error: Error) => void): unknown;
  removeListener(event: "error", listener: (error: Error) => void): unknown;
  end(): Promise<void>;
  readonly options: object;
}

/** A `pg.PoolClient`. */
export interface PgClient {
  query(config: never, callback: (error: Error, result: never) => void): void;
  on(event: "error", listener: (error: Error) => void): unknown;
  removeListener(event: "error", listener: (error: Error) => void): unknown;
  release(error?: Error | boolean): void;
  readonly pipeline: boolean;
}

/** The parts of a client that its types don't show, or not as we use them. */
interface OpenClient {
  pipeline: boolean;
  query(config: object, callback: (error: Error | null | undefined, result: PgResult) => void): void;
  readonly connection?: { readonly stream?: { cork?(): void; uncork?(): void; destroy?(error?: Error): void } };
}

interface PgResult {
  command: string | null;
  rowCount: number | null;
  rows: unknown[][];
  fields: readonly { name: string }[];
}

/** A statement as it goes to the server. */
export interface Query {
  text: string;
  values?: readonly (string | null)[];
}

/** What the server said about a statement. */
export type Answer = { rows: unknown[][]; names: readonly string[]; count: number; command: string } | { error: unknown };

/** Taken at load, so that a user's fake timers can't stop a run. */
const later = setTimeout;
const never = clearTimeout;

/** For tests: called whenever a connection sends statements. */
let onRoundTrip: ((texts: readonly string[]) => void) | undefined;

/** For tests: counts round trips. */
export function setRoundTripHook(hook: typeof onRoundTrip): void {
  onRoundTrip = hook;
}

/**
 * A connection of a pool, for one transaction. It must be released.
 *
 * Statements that are sent together go out in one piece, each followed by the protocol's own *sync*. So the server answers each of
 * them, in order. After an error in a transaction, it answers the others with 25P02, and COMMIT with the tag ROLLBACK.
 */
export class Connection {
  readonly #client: PgClient;
  readonly #answerTimeoutMs: number;
  readonly #wasPipelined: boolean;
  #lost: Error | undefined;

  private constructor(client: PgClient, answerTimeoutMs: number) {
    this.#client = client;
    this.#answerTimeoutMs = answerTimeoutMs;
    this.#wasPipelined = client.pipeline;
    this.#open.pipeline = true;
    client.on("error", this.#onError);
  }

  /**
   * @param freeTimeoutMs how long to wait until a connection of the pool is free
   * @param answerTimeoutMs how long the server may take to answer before the connection counts as lost
   * @throws {ConnectionLost}, {@link ConnectionRefused}, or what the server says
   */
  static async from(pool: PgPool, freeTimeoutMs: number, answerTimeoutMs: number): Promise<Connection> {
    // A pool may throw at once.
    const connecting = Promise.resolve().then(() => pool.connect());
    let timer: NodeJS.Timeout | undefined;
    const tooLong = new Promise<never>((_, failed) => {
      timer = later(() => failed(new PoolCrowded(freeTimeoutMs)), freeTimeoutMs);
    });
    try {
      return new Connection(await Promise.race([connecting, tooLong]), answerTimeoutMs);
    } catch (error) {
      if (error instanceof PoolCrowded) void connecting.then((client) => client.release()).catch(() => undefined);
      throw meaningOfRefusal(error);
    } finally {
      never(timer);
    }
  }

  get #open(): OpenClient {
    return this.#client;
  }

  /** An idle client's error would end the process if nobody listened. */
  readonly #onError = (error: Error): void => {
    this.#lost ??= error;
  };

  /** Sends statements together. It never rejects: each has its own answer. A lost connection is a {@link ConnectionLost}. */
  async send(queries: readonly Query[]): Promise<Answer[]> {
    onRoundTrip?.(queries.map(({ text }) => text));
    const { connection } = this.#open;
    const timer = later(
      () => connection?.stream?.destroy?.(new Error("the server didn't answer in time")),
      this.#answerTimeoutMs,
    );
    connection?.stream?.cork?.();
    const answers = queries.map((query) => this.#answered(query));
    connection?.stream?.uncork?.();
    try {
      return await Promise.all(answers);
    } finally {
      never(timer);
    }
  }

  #answered({ text, values }: Query): Promise<Answer> {
    return new Promise((resolve) => {
      this.#open.query({ text, values, rowMode: "array", queryMode: "extended", types: PARSE }, (error, result) => {
        if (error) {
          const isLost = sqlState(error) === "" && !(error instanceof UnknownType);
          if (isLost) this.#lost ??= error;
          return resolve({ error: isLost ? new ConnectionLost(error) : error });
        }
        const { rows, fields, rowCount, command } = result;
        return resolve({ rows, names: fields.map(({ name }) => name), count: rowCount ?? 0, command: command ?? "" });
      });
    });
  }

  /** @param isInDoubt nobody knows what state the connection is in, so that nobody must use it again */
  release(isInDoubt = false): void {
    this.#client.removeListener("error", this.#onError);
    this.#open.pipeline = this.#wasPipelined;
    this.#client.release(this.#lost ?? isInDoubt);
  }
}
