import { EventEmitter } from "node:events";
import type { Logger } from "./logger";
import type { PrunedEvent } from "./retention/request";
import type { RewindReport } from "./rewind/plan";
import type { Turn } from "./turns/types";

/** What a saver tells those who listen. Listeners run synchronously, after the commit they speak of. */
export interface SaverEvents {
  /** A turn was saved; an Action comes twice, once provisional and once settled with its writes. */
  turn: [turn: Turn];
  /** A turn could not be saved; the graph goes on (S1.9) unless `onTurnError` is `"throw"`. */
  turn_failed: [failure: { threadId: string; nodeName: string; turnType: "Thought" | "Action"; error: unknown }];
  checkpoint: [
    saved: { threadId: string; checkpointNs: string; checkpointId: string; step: number; source: string; seq: number },
  ];
  /** A checkpoint or pending writes could not be saved: the run cannot be resumed from here. */
  checkpoint_failed: [failure: { threadId: string; checkpointNs: string; checkpointId: string; error: unknown }];
  rewind: [report: RewindReport];
  /**
   * `saver.prune` (but for a dry run) or `saver.deleteForRuns` has ended, or the option `retention` has removed something. What
   * `deleteThread` and `rewind` remove is not told here.
   */
  pruned: [report: PrunedEvent];
}

/** A listener that throws is the listener's affair: it is logged, and must not pass for a save that failed. */
export class SaverEmitter extends EventEmitter<SaverEvents> {
  readonly #log: Logger;

  constructor(log: Logger) {
    super();
    this.#log = log;
  }

  tell<K extends keyof SaverEvents>(name: K, ...event: SaverEvents[K]): void {
    try {
      (this as EventEmitter).emit(name, ...event);
    } catch (error) {
      this.#log.error({ event: name, error: String(error) }, "a listener of the saver's events threw");
    }
  }
}
