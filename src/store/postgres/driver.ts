import { type Answer, Batch, type Prepared, type Query } from "./batch";
import {
  ConnectionLost,
  ConnectionRefused,
  ConnectTimeout,
  LeftAborted,
  meaningOfRefusal,
  PlanLost,
  PoolCrowded,
  Silence,
} from "./failures";
import { later, never } from "../../timers";

/*
 * What this package needs of `pg`, as structural types. A `pg.Pool` satisfies them, so users need no types of `pg` to compile
 * against ours.
 */

/** A `pg.Pool`. */
export interface PgPool {
  connect(): Promise<PgClient>;
  on(event: "error", listener: (error: Error) => void): unknown;
  on(event: "connect", listener: (client: PgClient) => void): unknown;
  removeListener(event: "error", listener: (error: Error) => void): unknown;
  removeListener(event: "connect", listener: (client: PgClient) => void): unknown;
  end(): Promise<void>;
  readonly options: object;
}

/** A `pg.PoolClient`. */
export interface PgClient {
  query(config: never, callback: (error: Error, result: never) => void): void;
  on(event: "error", listener: (error: Error) => void): unknown;
  removeListener(event: "error", listener: (error: Error) => void): unknown;
  release(error?: Error | boolean): void;
  /** "T" within a transaction, "E" within one that has failed. */
  getTransactionStatus?(): string | null;
  readonly pipeline: boolean;
}

/** The parts of a client that its types don't show. */
interface OpenClient {
  pipeline: boolean;
  query(batch: Batch): void;
  [PREPARED]?: Prepared | false;
  /** The server process, as the login told. A pooler tells something else. */
  readonly processID?: number | null;
  readonly connection?: { readonly stream?: { destroy?(error?: Error): void } };
}

/** For tests: called whenever a connection sends statements. */
let onRoundTrip: ((texts: readonly string[]) => void) | undefined;

/** For tests: counts round trips. */
export function setRoundTripHook(hook: typeof onRoundTrip): void {
  onRoundTrip = hook;
}

/**
 * What is known of named statements on a client; false if they don't work there. It stands on the client, for all copies of this package
 * (ESM beside CommonJS, or one that a development server has loaded again): they give a text the same name.
 */
const PREPARED = Symbol.for("langgraph-checkpoint-turns.prepared");

/** A connection of a pool, for one transaction. It must be released. */
export class Connection {
  readonly #client: PgClient;
  readonly #answerTimeoutMs: number;
  readonly #wasPipelined: boolean;
  #lost: Error | undefined;
  #isFresh = true;

  private constructor(client: PgClient, answerTimeoutMs: number) {
    this.#client = client;
    this.#answerTimeoutMs = answerTimeoutMs;
    this.#wasPipelined = client.pipeline;
    // A batch answers for several statements, which the driver can't tell apart in a pipeline of its own.
    this.#open.pipeline = false;
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
      // Otherwise the server takes so long to accept a connection.
      const late = (): Error => (isCrowded(pool) ? new PoolCrowded(freeTimeoutMs) : new ConnectTimeout(freeTimeoutMs));
      timer = later(() => failed(late()), freeTimeoutMs);
    });
    try {
      const client = await Promise.race([connecting, tooLong]);
      if (/[TE]/.test(client.getTransactionStatus?.() ?? "")) {
        // Our COMMIT would commit what its last user has left open.
        client.release(true);
        throw new LeftAborted(new ConnectionLost(new Error("a client of the pool was released within a transaction")));
      }
      if (!("native" in client)) return new Connection(client, answerTimeoutMs);
      client.release();
      throw new ConnectionRefused(new Error("it's a pool of pg-native"), "native");
    } catch (error) {
      if (error instanceof PoolCrowded || error instanceof ConnectTimeout)
        void connecting.then((client) => client.release()).catch(() => undefined);
      throw error instanceof ConnectionRefused || error instanceof LeftAborted ? error : meaningOfRefusal(error);
    } finally {
      never(timer);
    }
  }

  get #open(): OpenClient {
    return this.#client as unknown as OpenClient;
  }

  /** An idle client's error would end the process if nobody listened. */
  readonly #onError = (error: Error): void => {
    this.#lost ??= error;
  };

  /**
   * Sends statements together. It never rejects: each has its own answer. A lost connection is a {@link ConnectionLost}.
   *
   * @param isPatient the server may take as long as it wants
   */
  async send(queries: readonly Query[], isPatient = false): Promise<Answer[]> {
    const lost = this.#lost;
    // The server may have answered the last statements, and not said that it's ready for more.
    if (lost !== undefined) return queries.map(() => ({ error: new ConnectionLost(lost) }));
    onRoundTrip?.(queries.map(({ text }) => text));
    const { connection } = this.#open;
    const isSilent = (): void => {
      this.#lost ??= new Silence();
      connection?.stream?.destroy?.(this.#lost);
    };
    const timer = isPatient ? undefined : later(isSilent, this.#answerTimeoutMs);
    const known = this.#open[PREPARED];
    const answers = await new Promise<Answer[]>((done) => {
      this.#open.query(new Batch(queries, known, done));
    });
    never(timer);
    if (known === undefined) this.#learn(queries, answers);
    const meanings = answers.map((answer) => ("error" in answer ? { error: this.#meaning(answer.error) } : answer));
    this.#isFresh = false;
    return meanings;
  }

  #meaning(error: unknown): unknown {
    if (error instanceof ConnectionLost) this.#lost ??= error.cause as Error;
    if (this.#isFresh && LeftAborted.isMeantBy(error)) {
      // Its last user left it in a transaction.
      this.#lost ??= error as Error;
      return new LeftAborted(error);
    }
    if (!this.#open[PREPARED] || !PlanLost.isMeantBy(error)) return error;
    this.#open[PREPARED] = false;
    return new PlanLost(error);
  }

  /** If the server process that has answered is the one of the login, no pooler is in between. */
  #learn(queries: readonly Query[], answers: readonly Answer[]): void {
    const answer = answers[queries.findIndex(({ tellsServer }) => tellsServer)];
    if (answer === undefined || "error" in answer) return;
    this.#open[PREPARED] = answer.rows[0]?.[0] === this.#open.processID ? new Map() : false;
  }

  /** @param isInDoubt nobody knows what state the connection is in, so that nobody must use it again */
  release(isInDoubt = false): void {
    this.#client.removeListener("error", this.#onError);
    this.#open.pipeline = this.#wasPipelined;
    this.#client.release(this.#lost ?? isInDoubt);
  }
}

/** Whether somebody waits until another gives a connection back. A pool that doesn't say so may be crowded. */
function isCrowded(pool: PgPool): boolean {
  const { waitingCount = 1 } = pool as { waitingCount?: number };
  return waitingCount > 0;
}
