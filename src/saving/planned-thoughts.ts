import type { RunnableConfig } from "@langchain/core/runnables";
import type { Checkpoint, CheckpointMetadata } from "@langchain/langgraph-checkpoint";
import type { ResolvedOptions } from "../options";
import { importedAt, type Place } from "../run-config";
import type { NewThought, TurnState } from "../store/store";
import { type PlannedTask, plannedTasks } from "../turns/node-task";
import type { Redaction } from "../turns/redaction";
import { withoutBookkeeping } from "../turns/turn";

/**
 * Thoughts of graphs that aren't attached. Nobody sees their nodes start, so their Thoughts are derived from the checkpoints: one
 * for each node task that LangGraph will run next.
 */
export class PlannedThoughts {
  #warned = false;

  constructor(
    private readonly options: Pick<ResolvedOptions, "createId" | "logger" | "serde">,
    private readonly redaction: Redaction,
  ) {}

  /**
   * The first graph that has any is warned about, unless it is being imported. An update of a nested graph says nothing about that:
   * LangGraph makes it without the callbacks of the graph around it.
   *
   * @param taskId of the user's task, if the run named it
   * @param createdAt when the checkpoint was made
   * @returns none if turns aren't recorded, and at the end of a graph
   */
  of(
    config: RunnableConfig,
    at: Place,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    taskId: string | undefined,
    createdAt: string,
  ): NewThought[] {
    if (!this.redaction.recordsTurns) return [];
    const { threadId, ns } = at;
    const tasks = plannedTasks(ns, checkpoint, metadata);
    const isNestedUpdate = ns !== "" && (metadata.source === "update" || metadata.source === "fork");
    if (tasks.length > 0 && !this.#warned && !isNestedUpdate && importedAt(config) === undefined) {
      this.#warned = true;
      this.options.logger.warn(
        { threadId },
        "the saver is not attached to this graph, so turns are derived from checkpoints; call saver.attach(graph) to record them as they happen",
      );
    }
    return tasks.map((task) => ({
      id: this.options.createId(),
      threadId,
      nodeName: task.name,
      sawDeletion: undefined,
      nodeNs: task.nodeNs,
      nodeTaskId: task.nodeTaskId,
      runId: undefined,
      step: task.step,
      state: this.#state(threadId, task, checkpoint, taskId),
      claim: { taskId, graphId: undefined, kind: "resume", name: checkpoint.id },
      createdAt,
      graph: undefined,
      fingerprint: undefined,
      start: { ns, checkpointId: checkpoint.id },
      needsSaves: false,
    }));
  }

  /** With redaction, a planned Thought can't refer to its checkpoint: it holds its own redacted state. */
  #state(threadId: string, task: PlannedTask, checkpoint: Checkpoint, taskId: string | undefined): TurnState {
    const { redaction, options } = this;
    const { name: nodeName, nodeNs, nodeTaskId, input } = task;
    // `redact` can't read state that a serde has encoded.
    if (options.serde !== undefined) return { format: redaction.keepsAll ? "checkpoint" : "none", packed: undefined };
    const isTold = redaction.keepsAll && input === undefined;
    const state = input === undefined ? withoutBookkeeping(isTold ? {} : checkpoint.channel_values) : input.value;
    const status = undefined;
    return redaction.packed(
      { threadId, graphId: undefined, taskId, nodeName, nodeNs, nodeTaskId, turnType: "Thought", status },
      state,
      isTold,
    );
  }
}
