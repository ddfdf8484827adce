import { createHash, randomUUID } from "node:crypto";
import type { Logger } from "../../logger";
import type { Hints } from "../changes";
import type { Awaitable } from "../store";
import { Connection, type PgClient, type PgPool } from "./driver";
import { later, never } from "../../timers";

/** Commits of one process within this time are told of together: a NOTIFY takes a lock that all commits of the server wait for. */
const TOGETHER_MS = 50;
/**
 * How long a notification of our own may take before the pool counts as one that doesn't deliver them, as poolers do. So long a
 * connection may take to come, too.
 */
const TEST_MS = 3_000;
const AGAIN_MS = 30_000;
/** A `pg.Pool` that doesn't say how many connections it has. */
const USUAL_MAX = 10;
/** Who listens on a connection of a pool. One connection of each pool is left to the saves. */
const listening = new WeakMap<PgPool, Set<Notifications>>();

function listenersOf(pool: PgPool): Set<Notifications> {
  const listeners = listening.get(pool) ?? new Set();
  listening.set(pool, listeners);
  return listeners;
}

/** The parts of a client that {@link PgClient} doesn't have. */
interface Listening {
  query(text: string): Promise<unknown>;
  on(event: "notification", heard: (message: { payload?: string }) => void): unknown;
  on(event: "error" | "end", lost: () => void): unknown;
  removeListener(event: "error" | "end", lost: () => void): unknown;
  removeAllListeners(event: "notification"): unknown;
}

/**
 * LISTEN and NOTIFY, so that followers look at once instead of after a while. Nothing relies on it: a pooler may swallow
 * notifications, a connection may be lost, and a process may never send any.
 */
export class Notifications {
  readonly #pool: () => Awaitable<PgPool>;
  readonly #channel: string;
  readonly #log: Logger;
  readonly #listeners = new Set<() => void>();
  #isToBeSent = false;
  #client: PgClient | undefined;
  #place: Set<Notifications> | undefined;
  #areHeard = false;
  #again: NodeJS.Timeout | undefined;
  #isClosed = false;
  #isOpen = false;
  /** Counts the connections that were asked for: one that comes when nobody waits for it any more goes back. */
  #round = 0;

  constructor(pool: () => Awaitable<PgPool>, schema: string, log: Logger) {
    this.#pool = pool;
    this.#channel = `langgraph_turns_${createHash("sha256").update(schema).digest("hex").slice(0, 16)}`;
    this.#log = log;
  }

  /** Something was committed. Others are told soon, behind the caller's back; if that fails, they aren't. */
  committed(): void {
    if (this.#isToBeSent || this.#isClosed) return;
    this.#isToBeSent = true;
    later(() => {
      this.#isToBeSent = false;
      if (!this.#isClosed) void this.#notify("").catch(this.#onFailure);
    }, TOGETHER_MS).unref();
  }

  listen(onHint: () => void): Hints {
    // One each, though two may be the same function.
    const listener = (): void => onHint();
    this.#listeners.add(listener);
    this.#open();
    const areHeard = (): boolean => this.#areHeard;
    return {
      get areHeard() {
        return areHeard();
      },
      stop: () => {
        this.#listeners.delete(listener);
        if (this.#listeners.size === 0) this.#release();
      },
    };
  }

  close(): void {
    this.#isClosed = true;
    this.#listeners.clear();
    this.#release();
  }

  async #notify(payload: string): Promise<void> {
    const connection = await Connection.from(await this.#pool(), TEST_MS, TEST_MS);
    const [answer] = await connection.send([
      { text: "SELECT pg_catalog.pg_notify($1, $2)", values: [this.#channel, payload], isMute: true },
    ]);
    connection.release();
    if (answer !== undefined && "error" in answer) throw answer.error as Error;
  }

  #open(): void {
    if (this.#isOpen) return;
    this.#isOpen = true;
    this.#round += 1;
    void this.#listen(this.#round);
  }

  /** Listens on a connection of its own, and tries whether a notification from another one arrives. */
  async #listen(round: number): Promise<void> {
    try {
      const pool = await this.#pool();
      if (round !== this.#round) return;
      const { max = USUAL_MAX } = pool.options as { max?: number };
      const listeners = listenersOf(pool);
      if (listeners.size + 1 >= max) {
        this.#log.debug({ max }, "the pool has no connection left to listen on, so followers look from time to time");
        return this.#lost();
      }
      this.#place = listeners.add(this);
      const client = await pool.connect();
      if (round !== this.#round) return client.release();
      this.#client = client;
      const heard = client as unknown as Listening;
      const nonce = randomUUID();
      heard.on("error", this.#lost);
      heard.on("end", this.#lost);
      const tried = new Promise<boolean>((resolve) => {
        const timer = later(() => resolve(false), TEST_MS);
        heard.on("notification", ({ payload }) => {
          if (payload === nonce) {
            never(timer);
            resolve(true);
          }
          for (const listener of this.#listeners) listener();
        });
      });
      await heard.query(`LISTEN ${this.#channel}`);
      await this.#notify(nonce);
      const areHeard = await tried;
      if (round !== this.#round) return;
      this.#areHeard = areHeard;
      if (areHeard) return;
      this.#log.debug({}, "notifications don't arrive through this pool, so followers look from time to time");
    } catch (error) {
      this.#onFailure(error);
    }
    if (round === this.#round) this.#lost();
  }

  /** Gives up the connection, and tries again later while somebody listens. */
  readonly #lost = (): void => {
    this.#release();
    if (this.#listeners.size === 0 || this.#isClosed) return;
    this.#again = later(() => {
      if (this.#listeners.size > 0) this.#open();
    }, AGAIN_MS);
    this.#again.unref();
  };

  #release(): void {
    const client = this.#client;
    this.#client = undefined;
    this.#place?.delete(this);
    this.#place = undefined;
    this.#areHeard = false;
    this.#isOpen = false;
    this.#round += 1;
    never(this.#again);
    if (client === undefined) return;
    const heard = client as unknown as Listening;
    heard.removeAllListeners("notification");
    // Closed rather than given back: it listens. What becomes of it then is no matter of the next one.
    client.release(true);
    for (const event of ["error", "end"] as const) heard.removeListener(event, this.#lost);
  }

  readonly #onFailure = (error: unknown): void => {
    this.#log.debug({ error: String(error) }, "followers could not be told of commits");
  };
}
