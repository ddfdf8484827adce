import { TurnsError } from "../errors";
import type { SaverEmitter, ValidationEvent } from "../events";
import type { LostTurn, TurnRow } from "../store/store";
import type { FailureLog } from "./failure-log";
import { toPublicTurn } from "./turn";

/** Tells users what became of turns: emits the saver's events, and logs failures. */
export class TurnReports {
  readonly #events: SaverEmitter;
  readonly #log: FailureLog;

  constructor(events: SaverEmitter, log: FailureLog) {
    this.#events = events;
    this.#log = log;
  }

  turnSaved(row: TurnRow): void {
    if (this.#events.listenerCount("turn") > 0) this.#events.emit("turn", toPublicTurn(row));
  }

  /**
   * A turn couldn't be saved, and the graph continues (S1.9).
   *
   * @param nodeTaskId of an Action that was handed in; its writes follow and may fail too, which is one failure
   */
  turnLost(threadId: string, lost: LostTurn, nodeTaskId?: string): void {
    const { nodeName, turnType, error } = lost;
    // The run's checkpoints can't be saved either, and that error says why.
    if (!TurnsError.is(error, "STORE_CLOSED")) this.#log.turnLost({ threadId, nodeName, turnType }, error, nodeTaskId);
    this.#events.emit("turn_failed", { threadId, ...lost });
  }

  validated(found: ValidationEvent): void {
    this.#events.emit("validation", found);
  }
}
