import type { Database, Statement } from "better-sqlite3";
import { openFile } from "../../src/testing-internal";
import { NaiveLooks } from "./naive-looks";
import { type NaivePlace, type Rung, RUNGS } from "./naive-saver";
import { NaiveOwnTables, NaiveTables, type Runs, type StoredTurn, type Tables } from "./naive-tables";

/** A SQLite file. */
export class NaiveFile implements NaivePlace {
  readonly db: Database;
  readonly tables: Tables;
  readonly #looks: NaiveLooks | undefined;
  readonly #isFenced: boolean;
  readonly #begin: Statement;
  readonly #commit: Statement;
  readonly #dataVersion: Statement;
  #version: unknown;

  constructor(path: string, rung: Rung) {
    const db = openFile(path, { synchronous: "normal" }) as unknown as Database;
    this.db = db;
    this.tables = rung < RUNGS.tables ? new NaiveOwnTables(db) : new NaiveTables(db, rung >= RUNGS.checksums);
    this.#looks = rung < RUNGS.looks ? undefined : new NaiveLooks(db);
    this.#isFenced = rung >= RUNGS.fence;
    this.#begin = db.prepare("BEGIN IMMEDIATE");
    this.#commit = db.prepare("COMMIT");
    this.#dataVersion = db.prepare("PRAGMA data_version").pluck();
  }

  takeLease(runId: string, threadId: string): void {
    this.#looks?.before();
    this.#begin.run();
    try {
      this.#version = this.#dataVersion.get();
      this.tables.takeLease(runId, threadId);
      this.#commit.run();
    } finally {
      if (this.db.inTransaction) this.db.exec("ROLLBACK");
    }
    this.#looks?.after();
  }

  commit(statements: readonly Runs[], values: readonly unknown[][], runId: string | undefined): void {
    try {
      this.#looks?.before();
      this.#begin.run();
      if (this.#isFenced) this.#refuseOthers(runId);
      for (let at = 0; at < statements.length; at += 1) (statements[at] as Runs).run(...(values[at] as unknown[]));
      this.tables.threadRow();
      this.#commit.run();
      this.#looks?.after();
    } catch (error) {
      if (this.db.inTransaction) this.db.exec("ROLLBACK");
      throw error;
    }
  }

  has(threadId: string): boolean {
    return this.tables.has(threadId);
  }

  turnsOf(threadId: string): StoredTurn[] {
    return this.tables.turnsOf(threadId);
  }

  close(): void {
    this.db.close();
  }

  /** If others have written: the lease must still be there, and the thread as this saver left it. */
  #refuseOthers(runId: string | undefined): void {
    const version = this.#dataVersion.get();
    if (version === this.#version) return;
    this.tables.refuseChanged(runId);
    this.#version = version;
  }
}
