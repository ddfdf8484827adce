import { BaseTurnSaver } from "./base-saver";
import { resolveOptions, type TurnSaverOptions } from "./options";
import { type DatabaseHandle, openSqliteStore } from "./store/sqlite";

export type { DatabaseHandle } from "./store/sqlite";

/**
 * A LangGraph checkpointer on SQLite that also records turns and can rewind a thread. Pass it to LangGraph:
 * `builder.compile({ checkpointer: saver })`.
 *
 * `put` and `putWrites` serialise at once and resolve when their rows are committed. In an attached graph, a node's body starts
 * only after everything before it is committed. Otherwise the commit comes before the promise is even returned. So LangGraph's
 * default durability "async" guarantees here what "sync" promises elsewhere. With the option `serde`, which is asynchronous,
 * saves commit in order before their promises resolve.
 *
 * Every method throws a {@link TurnsError}: INVALID_CONFIG for an invalid id; STORE_CLOSED, STORE_BUSY or STORE_FAILED from the
 * database; CHECKPOINT_CORRUPTED for a row that doesn't verify. docs/errors.md lists all codes. With an asynchronous key
 * provider, saves wait for the keys, in order. If opening fails (KEY_PROVIDER_FAILED, WRONG_KEY, …), they all fail with that
 * error.
 */
export class TurnSaver extends BaseTurnSaver {
  /**
   * Opens a saver on a database handle. It sets the handle's pragmas, brings the schema up to date, and closes the handle with
   * {@link close}. Other tables in the file are left alone. One pragma is a busy timeout of 5 ms, because the saver waits for
   * locks itself.
   *
   * @param db an open database of better-sqlite3, or a `DatabaseSync` of `node:sqlite`
   * @throws {TurnsError} INVALID_OPTION, STORE_UNAVAILABLE, NOT_A_DATABASE, SCHEMA_TOO_NEW, SCHEMA_CONFLICT; DRIVER_UNAVAILABLE
   *   for a path; ENCRYPTED, NOT_ENCRYPTED, UNKNOWN_KEY, WRONG_KEY, KEY_PROVIDER_FAILED
   */
  constructor(db: DatabaseHandle, options?: TurnSaverOptions);
  /** @internal {@link fromPath} */
  constructor(source: DatabaseHandle | string, options?: TurnSaverOptions);
  constructor(source: DatabaseHandle | string, options?: TurnSaverOptions) {
    const resolved = resolveOptions(options);
    super(openSqliteStore(source, resolved), resolved);
  }

  /** Opens or creates a database file. `":memory:"` lives as long as the saver. @throws as the constructor */
  static fromPath(path: string, options?: TurnSaverOptions): TurnSaver {
    return new TurnSaver(path, options);
  }

  /** {@link fromPath} under the name the official savers use. */
  static fromConnString(connStringOrLocalPath: string, options?: TurnSaverOptions): TurnSaver {
    return TurnSaver.fromPath(connStringOrLocalPath, options);
  }
}
