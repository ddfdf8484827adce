import { TurnsError } from "../errors";
import type { Program } from "./program";
import type { Session } from "./session";

type Work = (session: Session) => Program<unknown>;
type Outcome = { value: unknown } | { error: unknown };
interface Read {
  work: Work;
  resolve: (value: unknown) => void;
  reject: (error: unknown) => void;
}

/** So many reads share a transaction at most: their results are in memory together. */
const READS_MAX = 32;
/** Every other read would fail in the same way, after as long a wait. */
const FOR_ALL = ["STORE_UNAVAILABLE", "STORE_BUSY", "STORE_CLOSED"] as const;

/**
 * Reads that were handed in one after the other, for a database on the network. They run side by side in one transaction, so they
 * see one state of the database and take as many round trips as the longest of them. Each has its own outcome.
 */
export class SharedReads {
  readonly #session: Session;
  readonly #reads: Read[] = [];

  constructor(session: Session) {
    this.#session = session;
  }

  get isFull(): boolean {
    return this.#reads.length >= READS_MAX;
  }

  add<T>(work: (session: Session) => Program<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#reads.push({ work, resolve: resolve as Read["resolve"], reject });
    });
  }

  /** It never throws. Where the transaction fails, each read is tried by itself, so that none fails because of another one. */
  async run(): Promise<void> {
    const [first] = this.#reads;
    if (first !== undefined && this.#reads.length === 1) return this.#alone(first);
    let outcomes: readonly Outcome[];
    try {
      outcomes = await this.#session.engine.read(() =>
        this.#session.reader().sideBySide(this.#reads.map(({ work }) => outcomeOf(this.#session.reader(), work))),
      );
    } catch (error) {
      if (FOR_ALL.some((code) => TurnsError.is(error, code))) for (const { reject } of this.#reads) reject(error);
      else for (const read of this.#reads) await this.#alone(read);
      return;
    }
    for (const [at, outcome] of outcomes.entries()) {
      const { resolve, reject } = this.#reads[at] as Read;
      if ("error" in outcome) reject(outcome.error);
      else resolve(outcome.value);
    }
  }

  async #alone({ work, resolve, reject }: Read): Promise<void> {
    try {
      resolve(await this.#session.engine.read(() => reading(this.#session.reader(), work)));
    } catch (error) {
      reject(error);
    }
  }
}

/** What the engine throws ends the whole transaction, and isn't caught here. */
function* outcomeOf(session: Session, work: Work): Program<Outcome> {
  try {
    return { value: yield* reading(session, work) };
  } catch (error) {
    return { error };
  }
}

function reading(session: Session, work: Work): Program<unknown> {
  return session.transaction(work(session));
}
