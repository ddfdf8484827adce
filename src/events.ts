import { EventEmitter } from "node:events";
import type { Effect } from "./effects/types";
import type { GraphDifference } from "./guards/compare";
import type { Validation, ValidationContext } from "./guards/gates";
import type { Logger } from "./logger";
import type { PrunedEvent } from "./retention/prune";
import type { RewindReport, TakeBackReport } from "./rewind/plan";
import type { Turn } from "./turns/turn";

/**
 * What happened to an effect. `replayed`: its recorded outcome was returned. `resolved`: a person settled it. `undone` and
 * `undo-failed`: in a rewind.
 */
export interface EffectEvent {
  what: "begun" | "done" | "failed" | "in-doubt" | "replayed" | "resolved" | "undone" | "undo-failed";
  effect: Effect;
}

/** What a gate found about a node's result. `turnId` is undefined if the Action couldn't be saved. */
export interface ValidationEvent extends Validation, Omit<ValidationContext, "input"> {
  turnId: string | undefined;
}

export interface DriftEvent {
  threadId: string;
  /** What changed, in words. */
  changes: readonly string[];
  /** Undefined if the turns were recorded without their graph. */
  report: GraphDifference | undefined;
  policy: "restart" | "refuse" | "continue";
  /** The run's effects, which a restart would repeat. */
  effects: readonly Pick<Effect, "name" | "label" | "key">[];
}

/** The events of a saver. Listeners run synchronously, after the commit they report. */
export interface SaverEvents {
  /** A turn was saved. An Action is reported twice: once provisional, once settled with its writes. */
  turn: [turn: Turn];
  /**
   * A turn couldn't be saved. The graph continues (S1.9) unless `onTurnError` is `"throw"`. If the error is REDACTION_FAILED, the
   * turn was saved without content.
   */
  turn_failed: [failure: { threadId: string; nodeName: string; turnType: "Thought" | "Action"; error: unknown }];
  checkpoint: [
    saved: { threadId: string; checkpointNs: string; checkpointId: string; step: number; source: string; seq: number },
  ];
  /** A checkpoint or pending writes couldn't be saved: the run can't be resumed from here. */
  checkpoint_failed: [failure: { threadId: string; checkpointNs: string; checkpointId: string; error: unknown }];
  /** Something happened to a side effect; see docs/effects.md. */
  effect: [event: EffectEvent];
  rewind: [report: RewindReport];
  /** A rewind was taken back: the rows it removed are restored. */
  rewind_taken_back: [report: TakeBackReport];
  /** A node's confidence gate judged the node's result (S3.4). The verdict is stored with the turn. */
  validation: [found: ValidationEvent];
  /**
   * A resume found that the graph differs from the one the thread was built on (S3.3). The event also says what the resume does
   * about it.
   */
  drift: [found: DriftEvent];
  /**
   * `saver.prune` (except a dry run) or `saver.retention.deleteForRuns` finished, or the option `retention` removed something.
   * What `deleteThread` and `rewind` remove isn't reported here.
   */
  pruned: [report: PrunedEvent];
}

/** An error of a listener is logged, so that it can't pass for a failed save. */
export class SaverEmitter extends EventEmitter<SaverEvents> {
  readonly #log: Logger;

  constructor(log: Logger) {
    super();
    // Each run that keeps a CHECKPOINT.md adds a listener, which is no leak.
    this.setMaxListeners(0);
    this.#log = log;
  }

  override emit<K extends keyof SaverEvents>(name: K, ...event: SaverEvents[K]): boolean {
    try {
      return (super.emit as (name: string, ...event: unknown[]) => boolean).call(this, name, ...event);
    } catch (error) {
      this.#log.error({ event: name, error: String(error) }, "a listener of the saver's events threw");
      return true;
    }
  }
}
