import type { RunnableConfig } from "@langchain/core/runnables";
import type { PendingWrite } from "@langchain/langgraph-checkpoint";
import type { ResolvedOptions } from "../options";
import { type CheckpointAddress, timeOfSave } from "../run-config";
import type { RunNames } from "../run-names";
import type { RunStart, RunStarts } from "../run-starts";
import type { NewWrites, PackedText, TaskClaim } from "../store/store";
import type { Redaction } from "../turns/redaction";
import { namingChannel, type Values } from "../values";
import { type PackedWrite, refuseIllFormed, settlementOf, toRows, updateOf, updateText, writesToKeep } from "./pending-writes";
import { claimOfWrites, nodeInPath } from "./task-claims";

type Settlement = NonNullable<ReturnType<typeof settlementOf>>;
type Settle = NonNullable<NewWrites["settle"]>;

/** The checkpoint that writes are based on, and the node task that they are from. */
export type WritesAddress = CheckpointAddress & { nodeTaskId: string; taskPath: string };

/** What writes say before they are serialised. */
export interface WritesOutline {
  readonly at: WritesAddress;
  readonly start: RunStart;
  readonly claim: TaskClaim;
  readonly settlement: Settlement | undefined;
}

/** Turns the arguments of LangGraph's `putWrites` into a request to the store. */
export class WritesRequests {
  constructor(
    private readonly options: ResolvedOptions,
    private readonly values: Values,
    private readonly redaction: Redaction,
    private readonly names: RunNames,
    private readonly starts: RunStarts,
  ) {}

  /** To be called when the writes are handed in. @throws {TurnsError} INVALID_CONFIG */
  outline(config: RunnableConfig, at: WritesAddress, writes: readonly PendingWrite[]): WritesOutline {
    const settlement = settlementOf(writes);
    const start = this.starts.of(config, at);
    return { at, start, claim: claimOfWrites(this.names.remember(config, at), at, writesToKeep(writes)), settlement };
  }

  /**
   * Serialises everything before it returns: the caller may change its objects afterwards.
   *
   * @param writes as they were handed in, or as the user's serde encoded them
   * @throws {TurnsError} UNSERIALIZABLE_VALUE naming channel, node and path
   */
  of(config: RunnableConfig, { at, start, claim, settlement }: WritesOutline, writes: readonly PendingWrite[]): NewWrites {
    const kept = this.#packed(at.threadId, writesToKeep(writes), nodeInPath(at.taskPath));
    const settle = settlement && this.redaction.recordsTurns ? this.#settle(at, writes, kept, settlement) : undefined;
    return {
      threadId: at.threadId,
      ns: at.ns,
      checkpointId: at.checkpointId,
      sawDeletion: start.sawDeletion,
      sawEpoch: start.sawEpoch,
      lease: start.lease,
      nodeTaskId: at.nodeTaskId,
      taskPath: at.taskPath,
      rows: toRows(kept),
      claim,
      createdAt: timeOfSave(config, this.options.clock),
      settle,
    };
  }

  #packed(threadId: string, writes: readonly PendingWrite[], node?: string): PackedWrite[] {
    return writes.map(([channel, value]) => {
      refuseIllFormed(channel);
      try {
        return { channel, packed: this.values.text(threadId, value) };
      } catch (error) {
        throw namingChannel(channel, error, node);
      }
    });
  }

  /** What becomes of the task's Action. Usually it exists already and isn't made from the writes. */
  #settle(
    { threadId, nodeTaskId }: WritesAddress,
    writes: readonly PendingWrite[],
    kept: readonly PackedWrite[],
    { status, durable }: Settlement,
  ): Settle {
    const { redaction, options } = this;
    const actionId = options.createId();
    if (redaction.keepsAll) return { status, durable, update: this.#update(threadId, writes, kept), actionId };
    const settle = { status, durable, update: undefined, actionId };
    // `redact` can't read writes that a serde has encoded.
    if (options.serde !== undefined || !redaction.asks) return settle;
    const update = redaction.copied(updateOf(writes));
    return {
      ...settle,
      redacted: ({ graphId, taskId, nodeName, nodeNs = "" }) =>
        redaction.packed({ threadId, graphId, taskId, nodeName, nodeNs, nodeTaskId, turnType: "Action", status }, update, false)
          .packed,
    };
  }

  /** Not everything that a failed task wrote is kept as writes. Its Action holds all of it, if it can be saved. */
  #update(threadId: string, writes: readonly PendingWrite[], kept: readonly PackedWrite[]): PackedText | undefined {
    if (kept.length === writes.length) return updateText(kept);
    try {
      return updateText(this.#packed(threadId, writes));
    } catch {
      return undefined;
    }
  }
}
