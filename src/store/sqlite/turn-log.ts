import { plainSealing } from "../../sealing";
import { deleteTurnsOfTasks, latestTurn, logTurn, pruneTurns, turnById, turnsOfTask } from "../ops/turn-log";
import type { Program } from "../program";
import type { LoggedTurn, TurnRow } from "../store";
import { adapted, waitingForOthers } from "./connection";
import type { DatabaseHandle, SqliteDatabase } from "./driver";
import { sessionOn, type SqliteSession } from "./engine";
import { translated } from "./failures";
import { migrate } from "./migrate";
import { refuseSecondName } from "./open-database";
import { OpenedFile } from "./opened-file";

/** The synchronous queries behind `CheckpointPersister`, on a handle that the caller owns. */
export class SqliteTurnLog {
  readonly #db: SqliteDatabase;
  readonly #session: SqliteSession;
  readonly #file: OpenedFile;

  constructor(handle: DatabaseHandle) {
    const db = adapted(handle);
    this.#db = db;
    refuseSecondName(db);
    waitingForOthers(db.name, () => migrate(db));
    this.#file = new OpenedFile(db);
    this.#session = sessionOn(db, plainSealing);
  }

  /** The persister has no keys. */
  awaitsKeys(): boolean {
    return false;
  }

  address(threadId: string, text: string): string {
    return this.#session.sealing.address(threadId, text);
  }

  insert(turn: Omit<TurnRow, "seq">): void {
    this.#write(logTurn(this.#session, turn));
  }

  byId(id: string): LoggedTurn | undefined {
    return this.#read(turnById(this.#session, id));
  }

  latest(graphId: string): LoggedTurn | undefined {
    return this.#read(latestTurn(this.#session, graphId));
  }

  ofTask(taskId: string, graphId: string | undefined): LoggedTurn[] {
    return this.#read(turnsOfTask(this.#session, taskId, graphId));
  }

  /** Deletes all rows of these tasks in one transaction. Returns how many were deleted. */
  deleteTasks(taskIds: readonly string[], graphId: string | undefined): number {
    return this.#write(deleteTurnsOfTasks(this.#session, taskIds, graphId)).length;
  }

  prune(graphId: string, keep: number): number {
    return this.#write(pruneTurns(this.#session, graphId, keep)).length;
  }

  /** Drops remembered facts that others may have changed. */
  #read<T>(program: Program<T>): T {
    return this.#session.now(this.#session.transaction(program));
  }

  #write<T>(program: Program<T>): T {
    try {
      this.#file.refuseLost();
      const result = this.#db.transaction(() => this.#session.now(program)).immediate() as T;
      this.#file.refuseLost(true);
      return result;
    } catch (error) {
      throw translated(error, this.#db.name);
    }
  }
}
