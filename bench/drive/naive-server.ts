import type { Socket } from "node:net";
import type { Statement } from "better-sqlite3";
import { PostgresTurnSaver } from "langgraph-checkpoint-turns/postgres";
import { Client } from "pg";
import { Messages } from "../../src/testing-internal";
import type { NaivePlace } from "./naive-saver";
import { NaiveTables, type Runs, type StoredTurn } from "./naive-tables";

const OUR_TABLE = /\blanggraph_\w+/g;
/** What PostgresTurnSaver sets in each transaction. */
const SETTINGS = `SELECT pg_catalog.pg_backend_pid(), pg_catalog.set_config('lock_timeout', $1, true),
  pg_catalog.set_config('idle_in_transaction_session_timeout', $2, true), pg_catalog.set_config('search_path', 'pg_catalog', true),
  pg_catalog.set_config('client_encoding', 'UTF8', true), pg_catalog.set_config('enable_seqscan', 'off', true),
  pg_catalog.set_config('jit', 'off', true)`;
/** So many marks are removed together. */
const MARKS = 32;

/**
 * The package's tables on PostgreSQL, over one connection. A transaction does what one of PostgresTurnSaver does: limits, a mark by which it
 * could be found after a lost connection, a guard for the row of the thread, the same rows, all in one piece.
 */
export class NaiveServer implements NaivePlace {
  readonly tables: NaiveTables;
  readonly #client: Client;
  readonly #schema: string;
  readonly #messages = new Messages();
  readonly #prepared = new Set<string>();
  #statements = 0;
  readonly #begin = this.#statement("BEGIN ISOLATION LEVEL READ COMMITTED");
  readonly #settings = this.#statement(SETTINGS);
  readonly #mark: Runs;
  readonly #unmark: Runs;
  readonly #guard: Runs;
  readonly #commit = this.#statement("COMMIT");
  #marks: number[] = [];
  #number = Math.floor(Math.random() * Number.MAX_SAFE_INTEGER);

  private constructor(client: Client, schema: string, threads: number) {
    this.#client = client;
    this.#schema = schema;
    this.#mark = this.#statement(`INSERT INTO ${schema}.langgraph_commits (number, done) VALUES ($1::bigint, 1)`);
    this.#unmark = this.#statement(`DELETE FROM ${schema}.langgraph_commits WHERE number = ANY($1::bigint[])`);
    this.#guard = this.#statement(`SELECT 1 / count(*) FROM (SELECT 1 FROM ${schema}.langgraph_threads
      WHERE thread = $1::bigint AND seq = $2::bigint AND generation = 0 FOR NO KEY UPDATE) AS remembered`);
    // Nothing reads here by the tables.
    const prepare = (text: string): Statement => ({ ...this.#translated(text), pluck: () => undefined }) as unknown as Statement;
    this.tables = new NaiveTables({ prepare }, true, threads);
  }

  /** @param schema as it stands in statements; gets the package's tables */
  static async open(url: string, schema: string): Promise<NaiveServer> {
    const ours = PostgresTurnSaver.fromConnString(url, { schema });
    await ours.setup();
    await ours.close();
    const client = new Client(url);
    await client.connect();
    const { rows } = await client.query<{ threads: string }>(
      `SELECT coalesce(max(thread), 0) AS threads FROM ${schema}.langgraph_threads`,
    );
    return new NaiveServer(client, schema, Number(rows[0]?.threads));
  }

  takeLease(): void {
    throw new Error("this place has no leases");
  }

  commit(statements: readonly Runs[], values: readonly unknown[][]): Promise<void> {
    const head = this.tables.committed;
    const number = (this.#number += 1);
    this.#begin.run();
    this.#settings.run("30000", "15000");
    this.#mark.run(number);
    if (this.#marks.length === MARKS) this.#unmark.run(`{${this.#marks.splice(0).join(",")}}`);
    if (head !== undefined) this.#guard.run(head.thread, head.seq);
    for (let at = 0; at < statements.length; at += 1) (statements[at] as Runs).run(...(values[at] as unknown[]));
    this.tables.threadRow();
    this.#commit.run();
    this.#messages.sync();
    this.#marks.push(number);
    return this.#sent(this.#messages.taken());
  }

  async has(threadId: string): Promise<boolean> {
    const { rows } = await this.#client.query(`SELECT 1 FROM ${this.#schema}.langgraph_threads WHERE thread_id = $1`, [threadId]);
    return rows.length > 0;
  }

  async turnsOf(threadId: string): Promise<StoredTurn[]> {
    const { rows } = await this.#client.query<StoredTurn>(
      `SELECT turn_type AS "turnType", checkpoint_id AS "checkpointId", durable = 1 AS durable
        FROM ${this.#schema}.langgraph_checkpoints WHERE graph_id = $1 ORDER BY seq`,
      [threadId],
    );
    return rows;
  }

  async close(): Promise<void> {
    await this.#client.end();
  }

  #sent(bytes: Buffer): Promise<void> {
    return new Promise((resolve, reject) => {
      const ignored = (): void => undefined;
      let tag = "";
      this.#client.query({
        submit: ({ stream }: { stream: Socket }) => void stream.write(bytes),
        handleRowDescription: ignored,
        handleDataRow: ignored,
        handleCommandComplete: ({ text }: { text: string }) => (tag = text),
        handleEmptyQuery: ignored,
        handlePortalSuspended: ignored,
        handleError: reject,
        handleReadyForQuery: () => (tag === "COMMIT" ? resolve() : reject(new Error(`COMMIT answered ${tag}`))),
      } as never);
    });
  }

  /** A statement of {@link NaiveTables}, in PostgreSQL's words. */
  #translated(text: string): Runs {
    if (text.startsWith("UPDATE langgraph_settings")) {
      return this.#statement(`SELECT pg_catalog.setval('${this.#schema}.langgraph_thread_numbers', $1)`);
    }
    let count = 0;
    return this.#statement(
      text.replaceAll("?", () => `$${(count += 1)}`).replaceAll(OUR_TABLE, (name) => `${this.#schema}.${name}`),
    );
  }

  #statement(text: string): Runs {
    const name = `naive-${(this.#statements += 1)}`;
    return {
      run: (...values: unknown[]) => {
        const messages = this.#messages;
        if (!this.#prepared.has(name)) {
          messages.parse(name, text);
          this.#prepared.add(name);
        }
        messages.bind(name, values.map(toText));
        messages.execute();
      },
    };
  }
}

function toText(value: unknown): string | null {
  return value === null || value === undefined ? null : `${value as string | number}`;
}
