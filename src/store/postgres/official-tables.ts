import { TurnsError } from "../../errors";
import type { OfficialBlob, OfficialRow, OfficialSource, OfficialWrite } from "../official-source";
import type { Query } from "./batch";
import { Connection, type PgPool } from "./driver";
import { BEGIN_READ, CANNOT_LOCK, quoted } from "./engine";
import { sqlState, translated } from "./failures";
import { isShared, listenTo, nameOfDatabase, openPool } from "./pool";

const CONNECT_WITHIN_MS = 30_000;
const LOCKED_WITHIN_MS = 60_000;
/** The server says by itself that a lock took too long. */
const ANSWER_WITHIN_MS = LOCKED_WITHIN_MS + 30_000;
const TABLES = {
  checkpoints: ["thread_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id", "checkpoint", "metadata"],
  checkpoint_blobs: ["thread_id", "checkpoint_ns", "channel", "version", "type", "blob"],
  checkpoint_writes: ["thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "idx", "channel", "type", "blob"],
};
const COLUMNS = `SELECT table_name::text, column_name::text FROM information_schema.columns WHERE table_schema::text = $1::text`;

type Value = string | null;
type Rows = unknown[][];

/** The official saver's statements have an order of their own for texts, which depends on the database. */
const statements = (schema: string) => {
  const [checkpoints, blobs, writes] = Object.keys(TABLES).map((table) => `${quoted(schema)}.${table}`);
  const of = "thread_id = $1 AND checkpoint_ns = $2 AND checkpoint_id = $3";
  const write = "task_id, idx, channel, type, pg_catalog.encode(blob, 'base64')";
  const byId = 'checkpoint_id COLLATE "C", checkpoint_ns COLLATE "C"';
  return {
    limit: `SET LOCAL lock_timeout TO ${LOCKED_WITHIN_MS}`,
    lock: `LOCK TABLE ${checkpoints}, ${blobs}, ${writes} IN ACCESS SHARE MODE`,
    has: `SELECT 1 FROM ${checkpoints} WHERE thread_id = $1 LIMIT 1`,
    first: `SELECT thread_id FROM ${checkpoints} ORDER BY thread_id LIMIT 1`,
    next: `SELECT thread_id FROM ${checkpoints} WHERE thread_id > $1 ORDER BY thread_id LIMIT 1`,
    keys: `SELECT checkpoint_ns, checkpoint_id FROM ${checkpoints} WHERE thread_id = $1 AND (${byId}) > ($2, $3)
      ORDER BY ${byId} LIMIT $4`,
    row: `SELECT parent_checkpoint_id, checkpoint::text, metadata::text FROM ${checkpoints} WHERE ${of}`,
    values: `SELECT b.channel, b.type, pg_catalog.encode(b.blob, 'base64') FROM ${checkpoints} AS c
      CROSS JOIN LATERAL pg_catalog.jsonb_each_text(c.checkpoint -> 'channel_versions'::text) AS v
      JOIN ${blobs} AS b ON b.thread_id = c.thread_id AND b.checkpoint_ns = c.checkpoint_ns AND b.channel = v.key AND b.version = v.value
      WHERE c.thread_id = $1 AND c.checkpoint_ns = $2 AND c.checkpoint_id = $3 AND b.type <> 'empty'`,
    writes: `SELECT ${write} FROM ${writes} WHERE ${of} ORDER BY task_id COLLATE "C", idx`,
    writesTo: `SELECT ${write} FROM ${writes} WHERE thread_id = $1 AND checkpoint_id = $2 AND channel = $3
      ORDER BY checkpoint_ns COLLATE "C", task_id COLLATE "C", idx`,
    orphans: `SELECT pg_catalog.count(*) FROM ${writes} AS w WHERE w.thread_id = $1 AND NOT EXISTS (SELECT 1 FROM ${checkpoints} AS c
      WHERE c.thread_id = w.thread_id AND c.checkpoint_ns = w.checkpoint_ns AND c.checkpoint_id = w.checkpoint_id)`,
  };
};

/**
 * The tables of LangGraph's own `PostgresSaver`. They are only read.
 *
 * @param source a connection string, or a pool, which isn't closed
 * @throws {TurnsError} DRIVER_UNAVAILABLE, STORE_UNAVAILABLE, SCHEMA_CONFLICT if a table or a column is missing
 */
export async function openOfficialTables(source: string | PgPool, schema: string): Promise<OfficialSource> {
  const name = nameOfDatabase(source, schema);
  const pool = typeof source === "string" ? await openPool(source) : source;
  const unlisten = listenTo(pool, () => undefined);
  const close = async (): Promise<void> => {
    unlisten();
    if (typeof source === "string") await pool.end();
  };
  const tables = new OfficialTables(pool, name, statements(schema), close);
  try {
    await tables.refuseOthers(schema);
  } catch (error) {
    await close();
    throw error;
  }
  return tables;
}

class OfficialTables implements OfficialSource {
  /** Of {@link frozen}. */
  #frozen: Connection | undefined;

  constructor(
    private readonly pool: PgPool,
    readonly file: string,
    private readonly sql: ReturnType<typeof statements>,
    readonly close: () => Promise<void>,
  ) {}

  async refuseOthers(schema: string): Promise<void> {
    const found = await this.#one(COLUMNS, schema);
    for (const [table, columns] of Object.entries(TABLES)) {
      const there = found.filter(([name]) => name === table).map(([, column]) => column);
      const missing = columns.filter((column) => !there.includes(column));
      if (missing.length === 0) continue;
      throw new TurnsError("SCHEMA_CONFLICT", {
        problem: `${this.file} doesn't have the tables of LangGraph's PostgresSaver: ${there.length === 0 ? `there is no table "${table}"` : `its table "${table}" has no ${missing.join(", ")}`}.`,
        remedy: "Name the schema that PostgresSaver uses with the option `schema`; nothing was changed.",
        data: { database: this.file, table, missing },
      });
    }
  }

  async has(threadId: string): Promise<boolean> {
    return (await this.#one(this.sql.has, threadId)).length > 0;
  }

  async nextThread(after: string | undefined): Promise<string | undefined> {
    const [row] = after === undefined ? await this.#one(this.sql.first) : await this.#one(this.sql.next, after);
    return row?.[0] as string | undefined;
  }

  async keys(threadId: string, after: { ns: string; checkpointId: string } | undefined, limit: number) {
    const rows = await this.#one(this.sql.keys, threadId, after?.checkpointId ?? "", after?.ns ?? "", String(limit));
    return rows.map(([ns, checkpointId]) => ({ ns: ns as string, checkpointId: checkpointId as string }));
  }

  async row(threadId: string, { ns, checkpointId }: { ns: string; checkpointId: string }): Promise<OfficialRow | undefined> {
    const values = [threadId, ns, checkpointId];
    const texts = [this.sql.row, this.sql.values, this.sql.writes];
    const [[row] = [], channels = [], writes = []] = await this.#all(texts.map((text) => ({ text, values })));
    if (row === undefined) return undefined;
    const [parentId, checkpoint, metadata] = row as [Value, Value, Value];
    return {
      ...{ ns, checkpointId, parentId, type: "json", checkpoint, metadata },
      channels: channels.map(([channel, type, value]) => ({
        channel: channel as string,
        type: type as Value,
        value: bytes(value),
      })),
      writes: writes.map(toWrite),
    };
  }

  async writesTo(channel: string, threadId: string, checkpointId: string): Promise<readonly OfficialWrite[]> {
    return (await this.#one(this.sql.writesTo, threadId, checkpointId, channel)).map(toWrite);
  }

  async orphans(threadId: string): Promise<number> {
    return (await this.#one(this.sql.orphans, threadId))[0]?.[0] as number;
  }

  async frozen<T>(work: () => Promise<T>): Promise<T> {
    if ((this.pool.options as { max?: number }).max === 1 && isShared(this.pool)) throw poolOfOne();
    return this.#inTransaction(work);
  }

  /** Behind locks on the tables, as {@link PostgresEngine.read} has it. */
  async #inTransaction<T>(work: () => Promise<T>): Promise<T> {
    const connection = await this.#connected();
    const [begin, lock] = [[BEGIN_READ, { text: this.sql.limit }], { text: this.sql.lock }];
    let isOver = false;
    try {
      this.#frozen = connection;
      const refused = (await connection.send([...begin, lock])).find((answer) => "error" in answer);
      // Then the reads say what is wrong, or there is nothing to lock.
      if (refused !== undefined && CANNOT_LOCK.includes(sqlState(refused.error)))
        await this.#all([{ text: "ROLLBACK" }, ...begin]);
      else if (refused !== undefined) throw translated(refused.error, this.file);
      const result = await work();
      await this.#one("COMMIT");
      isOver = true;
      return result;
    } finally {
      this.#frozen = undefined;
      // The next one that gets it must not be in this transaction.
      connection.release(!isOver);
    }
  }

  async #connected(): Promise<Connection> {
    try {
      return await Connection.from(this.pool, CONNECT_WITHIN_MS, ANSWER_WITHIN_MS);
    } catch (error) {
      throw translated(error, this.file);
    }
  }

  async #one(text: string, ...values: Value[]): Promise<Rows> {
    return (await this.#all([{ text, values }]))[0] ?? [];
  }

  async #all(queries: readonly Query[]): Promise<Rows[]> {
    if (this.#frozen === undefined) return this.#inTransaction(() => this.#all(queries));
    return (await this.#frozen.send(queries)).map((answer) => {
      if ("error" in answer) throw translated(answer.error, this.file);
      return answer.rows;
    });
  }
}

/** A thread's snapshot keeps the connection while the saver writes: it would wait for itself. */
function poolOfOne(): TurnsError {
  return new TurnsError("INVALID_OPTION", {
    problem: "The pool of the import has only one connection (max: 1), and a saver uses it too.",
    remedy: "Nothing was imported. Pass a connection string as the source, or give the pool a `max` of 2 or more.",
    data: { option: "source" },
  });
}

function toWrite([taskId, idx, channel, type, value]: unknown[]): OfficialWrite {
  return { taskId: taskId as string, idx: idx as number, channel: channel as string, type: type as Value, value: bytes(value) };
}

function bytes(base64: unknown): OfficialBlob {
  return base64 === null ? null : new Uint8Array(Buffer.from(base64 as string, "base64"));
}
