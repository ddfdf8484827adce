import { ConnectionLost, sqlState } from "./failures";
import { Messages } from "./messages";
import { parserOf, type Parse } from "./values";

/** A statement as it goes to the server. */
export interface Query {
  readonly text: string;
  readonly values?: readonly (string | null)[];
  /** Says the same as the text: under this name, the server may keep the statement with its plan. */
  readonly name?: string | undefined;
  /** Nobody reads its rows. Then the server needn't say what columns they have. */
  readonly isMute?: boolean;
  /** Its first column is `pg_backend_pid()`. It's read once for each connection. */
  readonly tellsServer?: boolean;
}

/** What the server said about a statement. */
export type Answer = { rows: unknown[][]; names: readonly string[]; count: number; command: string } | { error: unknown };

/** What the driver gives a batch to send itself by. */
interface Wire {
  readonly stream: { readonly writable: boolean; write(bytes: Uint8Array): unknown };
  sendCopyFail(reason: string): void;
}

/** Names that a connection's server was told; false for one that it may not have heard. */
export type Prepared = Map<string, boolean>;

const NONE: readonly never[] = [];
/** Empty between two batches. */
const messages = new Messages();
/** The number of changed rows at the end of the server's tag for a statement, e.g. `INSERT 0 1`. */
const COUNT = / (\d+)$/;

/**
 * Statements that the driver sends in one piece, with one *sync* behind them. The server runs them one after the other. After an error
 * it leaves out the rest. So it answers once, and who waits for it wakes up once.
 *
 * `pg` calls the methods for the server's messages.
 */
export class Batch {
  /** Set by the driver if the pool has a `query_timeout`: stops its timer. */
  callback: (() => void) | undefined;
  readonly #queries: readonly Query[];
  readonly #prepared: Prepared | undefined;
  readonly #isNew: boolean;
  readonly #done: (answers: Answer[]) => void;
  readonly #answers: Answer[] = [];
  #rows: unknown[][] = [];
  #names: readonly string[] = [];
  #parsers: readonly Parse[] | undefined;
  #misread: { error: unknown } | undefined;
  #isDone = false;

  /**
   * @param prepared undefined on a new connection; false if named statements don't work on this one
   * @param done gets an answer for each statement; those behind an error have the same error
   */
  constructor(queries: readonly Query[], prepared: Prepared | false | undefined, done: (answers: Answer[]) => void) {
    this.#queries = queries;
    this.#prepared = prepared === false ? undefined : prepared;
    this.#isNew = prepared === undefined;
    this.#done = done;
  }

  /** @returns why nothing was sent, if so */
  submit({ stream }: Wire): unknown {
    try {
      this.#compose();
    } catch (error) {
      messages.taken();
      return error;
    }
    const bytes = messages.taken();
    // A stream that is closed tells so by itself.
    if (stream.writable) stream.write(bytes);
    return null;
  }

  #compose(): void {
    for (const { text, values = NONE, name, isMute = false, tellsServer = false } of this.#queries) {
      messages.bind(this.#parsed(text, name), values);
      if (!isMute && (this.#isNew || !tellsServer)) messages.describe();
      messages.execute();
    }
    messages.sync();
  }

  /** @returns the name of the statement; empty if it has none */
  #parsed(text: string, name: string | undefined): string {
    const prepared = this.#prepared;
    if (name === undefined || prepared === undefined) {
      messages.parse("", text);
      return "";
    }
    const isThere = prepared.get(name);
    if (isThere === true) return name;
    if (isThere === false) messages.close(name);
    messages.parse(name, text);
    prepared.set(name, true);
    return name;
  }

  handleRowDescription({ fields }: { fields: readonly { name: string; dataTypeID: number }[] }): void {
    try {
      this.#parsers = fields.map(({ dataTypeID }) => parserOf(dataTypeID));
      this.#names = fields.map(({ name }) => name);
    } catch (error) {
      this.#misread ??= { error };
    }
  }

  handleDataRow({ fields }: { fields: (string | null)[] }): void {
    const parsers = this.#parsers;
    if (parsers === undefined) return;
    const row: unknown[] = fields;
    for (let at = 0; at < fields.length; at += 1) {
      const text = fields[at] as string | null;
      row[at] = text === null ? null : (parsers[at] as Parse)(text);
    }
    this.#rows.push(row);
  }

  handleCommandComplete({ text }: { text: string }): void {
    const count = COUNT.exec(text);
    const answer = { rows: this.#rows, names: this.#names, count: Number(count?.[1] ?? 0), command: text.split(" ", 1)[0] ?? "" };
    this.#answers.push(this.#misread ?? answer);
    this.#rows = [];
    this.#names = [];
    this.#parsers = undefined;
    this.#misread = undefined;
  }

  handleEmptyQuery(): void {
    this.handleCommandComplete({ text: "" });
  }

  handlePortalSuspended(): void {
    // Portals are run to their end.
  }

  handleCopyInResponse(wire: Wire): void {
    wire.sendCopyFail("there is nothing to copy");
  }

  handleCopyData(): void {
    // No statement copies.
  }

  /** The server has refused a statement, or the connection is lost. */
  handleError(error: unknown): void {
    const failed = { error: sqlState(error) === "" ? new ConnectionLost(error) : error };
    // Nobody knows which of the others it has read.
    for (const { name } of this.#queries.slice(this.#answers.length)) if (name !== undefined) this.#prepared?.set(name, false);
    while (this.#answers.length < this.#queries.length) this.#answers.push({ ...failed });
    this.#end();
  }

  handleReadyForQuery(): void {
    this.#end();
  }

  #end(): void {
    if (this.#isDone) return;
    this.#isDone = true;
    this.callback?.();
    this.#done(this.#answers);
  }
}
