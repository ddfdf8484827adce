import { EventEmitter } from "node:events";
import type { Effect } from "./effects/types";
import type { GraphDifference } from "./guards/compare";
import type { Validation, ValidationContext } from "./guards/gates";
import type { Logger } from "./logger";
import type { PrunedEvent } from "./retention/prune";
import type { RewindReport, TakeBackReport } from "./rewind/plan";
import type { Turn } from "./turns/turn";

/**
 * What happens to an effect: `replayed`, its recorded outcome was given; `resolved`, somebody settled it by hand; `undone` and
 * `undo-failed`, in a rewind.
 */
export interface EffectEvent {
  what: "begun" | "done" | "failed" | "in-doubt" | "replayed" | "resolved" | "undone" | "undo-failed";
  effect: Effect;
}

/** What a gate found, and of what. `turnId` is undefined if the Action could not be saved. */
export interface ValidationEvent extends Validation, Omit<ValidationContext, "input"> {
  turnId: string | undefined;
}

export interface DriftEvent {
  threadId: string;
  /** What changed, in words. */
  changes: readonly string[];
  /** Undefined where turns were recorded without their graph. */
  report: GraphDifference | undefined;
  policy: "restart" | "refuse" | "continue";
  /** What the run did: starting it again would repeat that. */
  effects: readonly Pick<Effect, "name" | "label" | "key">[];
}

/** What a saver tells those who listen. Listeners run synchronously, after the commit they speak of. */
export interface SaverEvents {
  /** A turn was saved; an Action comes twice, once provisional and once settled with its writes. */
  turn: [turn: Turn];
  /**
   * A turn could not be saved; the graph goes on (S1.9) unless `onTurnError` is `"throw"`. With an error REDACTION_FAILED it was saved,
   * but without content.
   */
  turn_failed: [failure: { threadId: string; nodeName: string; turnType: "Thought" | "Action"; error: unknown }];
  checkpoint: [
    saved: { threadId: string; checkpointNs: string; checkpointId: string; step: number; source: string; seq: number },
  ];
  /** A checkpoint or pending writes could not be saved: the run cannot be resumed from here. */
  checkpoint_failed: [failure: { threadId: string; checkpointNs: string; checkpointId: string; error: unknown }];
  /** Something happened to a side effect; see docs/effects.md. */
  effect: [event: EffectEvent];
  rewind: [report: RewindReport];
  /** A rewind was taken back: what it had removed is there again. */
  rewind_taken_back: [report: TakeBackReport];
  /** A node's confidence gate has judged what the node returned (S3.4); it is stored with the turn. */
  validation: [found: ValidationEvent];
  /** A resume found that the graph is not what the thread was built on (S3.3), and what it does about it. */
  drift: [found: DriftEvent];
  /**
   * `saver.prune` (but for a dry run) or `saver.retention.deleteForRuns` has ended, or the option `retention` has removed something. What
   * `deleteThread` and `rewind` remove is not told here.
   */
  pruned: [report: PrunedEvent];
}

/** A listener that throws is the listener's affair: it is logged, and must not pass for a save that failed. */
export class SaverEmitter extends EventEmitter<SaverEvents> {
  readonly #log: Logger;

  constructor(log: Logger) {
    super();
    // One listener per run that keeps a CHECKPOINT.md is no leak.
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
