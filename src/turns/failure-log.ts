import { TurnsError } from "../errors";
import type { Logger } from "../logger";
import { Recent } from "../store/thread-state";
import { uptime } from "../system";
import { atEndOfMacrotask } from "../timers";
import type { Replaced } from "./node-task";

/** How many failures are remembered, and for how long one isn't told again. */
const REMEMBERED = 1_000;
const QUIET_MS = 60_000;
/** A checkpoint that couldn't be saved, or writes on it. */
export interface FailedSave {
  threadId: string;
  checkpointId: string;
  /** For a checkpoint: the one it was made from. */
  parentId: string | undefined;
  /**
   * The run's lease. Without one, a checkpoint may have failed because of the one it was made from, and writes because of their
   * checkpoint.
   */
  runId: string | undefined;
  /** For writes: their node task. */
  nodeTaskId: string | undefined;
}

/** Logs what couldn't be saved: one line for a failure, although several saves fail because of it. */
export class FailureLog {
  readonly #told = new Recent<string, number>(REMEMBERED);

  constructor(private readonly logger: Logger) {}

  saveFailed(at: FailedSave, error: unknown): void {
    const { threadId, checkpointId, parentId, runId, nodeTaskId } = at;
    if (nodeTaskId !== undefined) this.#told.set(ofTask(nodeTaskId), uptime());
    const cause = causeOf(error);
    if (runId === undefined) {
      const failure = (kind: "checkpoint" | "writes", id: string | undefined): string => `${threadId} ${kind} ${id} ${cause}`;
      const isPut = nodeTaskId === undefined;
      const reasons = isPut
        ? [failure("checkpoint", parentId), failure("writes", parentId)]
        : [failure("checkpoint", checkpointId)];
      const isTold = reasons.some((key) => this.#told.get(key) !== undefined);
      this.#told.set(failure(isPut ? "checkpoint" : "writes", checkpointId), uptime());
      if (isTold) return;
    } else if (!this.#isNew(`${runId} ${cause}`)) return;
    const told = { threadId, checkpointId, error: String(error) };
    if (isOver(error)) this.logger.warn(told, "not saved: a node finished after its run was over, and a resume runs it again");
    else this.logger.error(told, "not saved: the run cannot be resumed from here");
  }

  /** Work that continues beside its replacement isn't saved. One line for an attempt of a node. */
  leftOut(threadId: string, { runId, node, by }: Replaced): void {
    const key = `left out ${runId}`;
    if (this.#told.get(key) !== undefined) return;
    this.#told.set(key, uptime());
    const what = node === undefined ? "work of an earlier run" : `an earlier attempt of node ${JSON.stringify(node)}`;
    const other = by === "attempt" ? "a later attempt" : "a later run";
    this.logger.warn(
      { threadId, ...(node !== undefined && { node }) },
      `not saved: ${what} still runs beside ${other}, which continues it; what the graphs in it do now isn't kept. Stop it when its config.signal is aborted, and wait in a node for what it has started before it throws`,
    );
  }

  /** A node task's writes follow its Action in the same macrotask. If they can't be saved either, that is one failure. */
  turnLost(told: { threadId: string; nodeName: string; turnType: string }, error: unknown, nodeTaskId: string | undefined): void {
    const log = (): void => this.logger.error({ ...told, error: String(error) }, "a turn could not be saved");
    const isFollowed = told.turnType === "Action" && TurnsError.is(error, "UNSERIALIZABLE_VALUE");
    if (nodeTaskId === undefined || !isFollowed) log();
    else atEndOfMacrotask(() => this.#told.get(ofTask(nodeTaskId)) ?? log());
  }

  #isNew(key: string): boolean {
    const now = uptime();
    const before = this.#told.get(key);
    if (before !== undefined && now - before < QUIET_MS) return false;
    this.#told.set(key, now);
    return true;
  }
}

const ofTask = (nodeTaskId: string): string => `task ${nodeTaskId}`;

/** What is the same for all saves that fail for one reason. */
function causeOf(error: unknown): string {
  if (!TurnsError.is(error)) return String(error);
  return TurnsError.is(error, "UNSERIALIZABLE_VALUE") ? `channel ${String(error.data["channel"])}` : error.message;
}

/** Whether a save is refused because its own run is over. It lost its thread to nobody. */
function isOver(error: unknown): boolean {
  return TurnsError.is(error, "LEASE_LOST") && error.data["over"] === true;
}
