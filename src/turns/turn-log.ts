import { Command, isCommand } from "@langchain/langgraph";
import type { ChainValues } from "@langchain/core/utils/types";
import { TurnsError } from "../errors";
import { type Gate, validationFailed, validated, type Validation } from "../guards/gates";
import { isSaver } from "../known-savers";
import type { ResolvedOptions } from "../options";
import type { RunNames } from "../run-config";
import { namespaceAbove } from "../store/namespaces";
import type {
  Awaitable,
  Lease,
  NewAction,
  NewThought,
  SawDeletion,
  Store,
  TaskClaim,
  TokenCounts,
  TurnRow,
  TurnStatus,
  TurnType,
} from "../store/store";
import { type SeenCheckpoints, tells, type UnsavedResults } from "./handed-in";
import { type Attempt, isInReplaced, type Elsewhere } from "./node-task";
import type { PendingFailures } from "./pending-failures";
import type { Redaction, UnsavedTurn } from "./redaction";
import type { RunRegistry } from "./run-registry";
import type { ModelCaller } from "./tokens";
import type { TurnReports } from "./turn-reports";
import { type Untracked, withoutUntracked } from "./untracked";

interface TurnLogParts {
  store: Store;
  options: ResolvedOptions;
  runs: RunRegistry;
  failures: PendingFailures;
  redaction: Redaction;
  seen: SeenCheckpoints;
  reports: TurnReports;
  unsaved: UnsavedResults;
  /** The task names that runs gave. */
  names: RunNames;
}

/**
 * Turns what the recorder sees into rows: a Thought before a node runs, and an Action with its outcome (S1.8). It follows the
 * error policy (S1.9). An error from `graphStarts` or `nodeStarts` stops the run before its work. An error from `nodeEnds` makes
 * LangGraph take the node for failed: only a gate does that, for a result that must not be used.
 */
export class TurnLog {
  readonly #parts: TurnLogParts;
  #warnedOfExit = false;
  /** What runs used in place of this saver, as far as a warning was given. */
  readonly #warnedOf = new Set<string>();

  constructor(parts: TurnLogParts) {
    this.#parts = parts;
  }

  /** A run starts that doesn't use the recorder's saver: neither its start nor its end is reported. */
  startsElsewhere(threadId: string, { checkpointer }: Elsewhere): void {
    const used = checkpointer === undefined ? "no checkpointer" : className(checkpointer);
    if (this.#warnedOf.has(used)) return;
    this.#warnedOf.add(used);
    this.#parts.options.logger.warn(
      { threadId, checkpointer: used },
      `an attached graph runs with ${used} instead of the TurnSaver that is attached to it: its checkpoints aren't in this file, so no ` +
        "turns are recorded here and it can't be rewound. Effects are still recorded here, so that none is repeated. Run the graph with the " +
        "saver that it was compiled with: graph.checkpointer = saver (LangGraph's dev server replaces it), or don't attach it.",
    );
  }

  /** A node is tried again and calls a graph with another input, which the graph doesn't see. */
  callsWithAnotherInput({ threadId, name: node, nodeNs, nodeTaskId }: Attempt): void {
    const place = `calls of ${nodeNs}|${node}`;
    if (this.#warnedOf.has(place)) return;
    this.#warnedOf.add(place);
    this.#parts.options.logger.warn(
      { threadId, node, nodeTaskId },
      `node ${JSON.stringify(node)} is tried again and calls a graph with another input than before. The graph resumes where it failed, with its ` +
        "first input, so that none of its nodes is repeated. To begin it from scratch, catch the error in the node and call it there again.",
    );
  }

  /** The deletion of its thread that a run finds when it starts now. */
  deletionOf(threadId: string): Awaitable<SawDeletion> {
    const found = this.#parts.runs.foundAt(threadId);
    if (found !== undefined) return found.deletion;
    return this.#parts.store.deletionOf(threadId);
  }

  /** @returns the run's lease on the thread */
  async graphStarts(threadId: string, runId: string, bringsInput: boolean): Promise<Lease | undefined> {
    this.#parts.failures.forget(threadId);
    return this.#parts.runs.graphStarted(threadId, runId, bringsInput);
  }

  /** All steps of a run are over. If its last checkpoint is being saved, the end of the run is saved with it. */
  stepsEnded(threadId: string, runId: string, checkpointId: string): void {
    const { options, seen, runs } = this.#parts;
    if (options.serde === undefined && seen.has({ threadId, ns: "", checkpointId })) runs.stepsEnded(threadId, runId);
  }

  async graphEnds(threadId: string, runId: string): Promise<void> {
    this.#parts.failures.forget(threadId);
    this.#parts.names.forget(threadId);
    this.#parts.unsaved.forget(threadId);
    await this.#parts.runs.graphEnded(threadId, runId);
  }

  /** Whether the checkpoint that a node starts from is stored. */
  async hasCheckpoint(attempt: Attempt): Promise<boolean> {
    const { seen, failures } = this.#parts;
    return (await seen.startOf(attempt, attempt.threadId, (on) => failures.saves.endOf(on))) !== undefined;
  }

  /**
   * Resolves when the Thought is committed, together with the checkpoint that the node starts from. Then the body may run.
   *
   * @param input what the node was called with
   * @param kind whether that is a state, and one that a Command may have updated
   */
  async nodeStarts(attempt: Attempt, input: ChainValues, kind: { isState: boolean; isUpdated: boolean }): Promise<void> {
    const { threadId, nodeNs, run } = attempt;
    if (run.elsewhere !== undefined) return;
    const { store, failures, redaction, reports, runs, seen } = this.#parts;
    const started = runs.nodeStarted(threadId, namespaceAbove(nodeNs), run.runId, run.isLate);
    if (started instanceof Promise) await started;
    try {
      const described = run.graph?.describe();
      if (described !== undefined) await described;
      const coming = seen.startOf(attempt, threadId, (on) => failures.saves.endOf(on));
      const start = coming instanceof Promise ? await coming : coming;
      if (start !== undefined && start.threadId !== threadId) await this.#moveTo(start.threadId, attempt);
      this.#refuseAfterFailure(attempt);
      // Taken before the wait, so that nodes that start side by side continue in the order in which LangGraph started them.
      const saves = failures.saves.endOf(attempt.threadId);
      let lost: { error: unknown } | undefined;
      const isTold = kind.isState && start !== undefined && tells(start, input, kind.isUpdated);
      try {
        if (redaction.recordsTurns) reports.turnSaved(await this.#thought(attempt, input, start, isTold));
      } catch (error) {
        lost = { error };
      }
      if (!redaction.recordsTurns) await store.checkLease(attempt.run.lease, "boundary");
      // The checkpoint was handed in before the Thought. If it couldn't be saved, the node doesn't run, so no turn of it is lost.
      if (saves !== undefined) await saves;
      this.#refuseAfterFailure(attempt);
      if (lost !== undefined) this.#thoughtLost(attempt, lost.error);
    } catch (error) {
      // LangChain reports no end for a run whose start was refused.
      await this.#leave(attempt, false);
      throw error;
    }
  }

  /** @param isTold whether the checkpoint that the node starts from contains its input */
  #thought(attempt: Attempt, input: ChainValues, start: NewThought["start"], isTold: boolean): Awaitable<TurnRow> {
    const { store, options, redaction } = this.#parts;
    // If nodes may run on checkpoints that couldn't be saved, a Thought doesn't depend on them.
    const needsSaves = options.onCheckpointError !== "continue";
    const saved = withoutUntracked(input, untrackedOf(attempt));
    return redaction.inTurn(this.#unsaved(attempt, "Thought", undefined), saved, isTold && needsSaves, (state) =>
      store.saveThought({ ...this.#row(attempt), state, start, needsSaves }, "boundary"),
    );
  }

  /**
   * The node's graph runs on another thread than its callbacks tell. Its turns are saved there, and that thread is marked as
   * running.
   */
  async #moveTo(threadId: string, attempt: Attempt): Promise<void> {
    const { graph, nodeNs } = attempt;
    const { runs } = this.#parts;
    if (graph.threadId !== threadId) {
      // The lease first: what the graph has saved so far, it saved with that one.
      const lease = runs.leaseOf(threadId) ?? graph.run.lease;
      const sawDeletion = await this.deletionOf(threadId);
      await runs.graphStarted(threadId, graph.runId, false);
      Object.assign(graph, { threadId, isMarked: true, run: { ...graph.run, runId: graph.runId, sawDeletion, lease } });
    }
    await runs.nodeStarted(threadId, namespaceAbove(nodeNs), graph.run.runId);
    await this.#leave(attempt, false);
    attempt.threadId = threadId;
    attempt.run = graph.run;
  }

  #thoughtLost(attempt: Attempt, error: unknown): void {
    this.#lost(attempt, "Thought", error);
    const isElsewhere = TurnsError.is(error, "LEASE_LOST") || TurnsError.is(error, "THREAD_MOVED");
    if (this.#parts.options.onTurnError !== "continue" || isElsewhere) throw error;
  }

  /**
   * @throws the error that a save of this run failed with: the node must not run on a checkpoint that doesn't exist. Also if the node
   *   around it is being tried again, which runs it too; nobody waits for that error
   */
  #refuseAfterFailure({ threadId, nodeNs, run, within }: Attempt): void {
    // LangGraph retries no error of this name.
    if (isInReplaced(within, threadId))
      throw Object.assign(new Error("The node around it is being tried again."), { name: "AbortError" });
    const failure = this.#parts.failures.take(threadId, namespaceAbove(nodeNs), run);
    if (failure !== undefined) throw failure as Error;
  }

  /**
   * Hands the Action in. Only a gate waits for it: the node's writes are handed in next, and must be committed with it.
   *
   * @param outcome what the node returned, or its error or interrupts
   * @throws {TurnsError} VALIDATION_FAILED
   */
  nodeEnds(attempt: Attempt, status: TurnStatus, outcome: unknown): Awaitable<void> {
    const isResult = status === "ok" || status === "handoff";
    const gate = isResult ? attempt.run.graph?.gateAt(attempt.nodeNs) : undefined;
    if (attempt.run.elsewhere !== undefined)
      return gate === undefined ? undefined : this.#passGate(gate, attempt, undefined, outcome);
    const saved = this.#parts.redaction.recordsTurns ? this.#action(attempt, status, outcome) : undefined;
    const isCompleted = status === "ok" && saved !== undefined;
    if (gate !== undefined) return this.#endsAtGate(gate, attempt, saved, outcome, isCompleted);
    if (isCompleted) this.#parts.unsaved.completed(attempt.threadId, attempt);
    return this.#leave(attempt, status === "error");
  }

  /** {@link nodeEnds} of a node with a gate. @param saved the Action, undefined if none is recorded */
  async #endsAtGate(
    gate: Gate,
    attempt: Attempt,
    saved: Promise<TurnRow | undefined> | undefined,
    outcome: unknown,
    isCompleted: boolean,
  ): Promise<void> {
    try {
      await this.#passGate(gate, attempt, await saved, outcome);
    } catch (error) {
      await this.#leave(attempt, true);
      throw error;
    }
    if (isCompleted) this.#parts.unsaved.completed(attempt.threadId, attempt);
    await this.#leave(attempt, false);
  }

  /** @returns undefined if it couldn't be saved */
  async #action(attempt: Attempt, status: TurnStatus, outcome: unknown): Promise<TurnRow | undefined> {
    const { store, redaction, reports } = this.#parts;
    try {
      const isResult = status === "ok" || status === "handoff";
      const saved = isResult ? withoutUntracked(outcome, untrackedOf(attempt, outcome)) : outcome;
      const row = await redaction.inTurn(this.#unsaved(attempt, "Action", status), saved, false, ({ packed }) =>
        store.saveAction({ ...this.#row(attempt), status, update: packed }, "boundary"),
      );
      reports.turnSaved(row);
      return row;
    } catch (error) {
      this.#lost(attempt, "Action", error);
      return undefined;
    }
  }

  /**
   * Asks a node's gate about what the node returned or hands over to a parent (requirement S3.4). This happens after its Action
   * is committed and before LangGraph saves its writes, so no superstep builds on them yet. The gate's verdict is stored with the
   * Action.
   *
   * @param action undefined if it couldn't be saved
   * @throws {TurnsError} VALIDATION_FAILED if the result failed and isn't only to be recorded. LangGraph then takes the node for
   *   failed: its writes are dropped, and a retry policy or a resume runs it again
   */
  async #passGate(gate: Gate, attempt: Attempt, action: TurnRow | undefined, output: unknown): Promise<void> {
    const { threadId, name: nodeName, nodeNs, nodeTaskId, step, input } = attempt;
    const at = { threadId, nodeName, nodeNs, nodeTaskId, step, taskId: action?.taskId ?? "", attempt: action?.attempt ?? 1 };
    const validation = await validated(gate, output, { ...at, input });
    const stops = validation.verdict === "failed" && gate.onFailure !== "record";
    if (action !== undefined) await this.#saveValidation(attempt, action.id, validation, stops);
    const { confidence, verdict } = validation;
    // A GraphRunner tells of the rollback.
    if (verdict !== "passed" && !(stops && gate.onFailure === "rollback")) {
      this.#parts.options.logger.warn(
        { threadId, node: nodeName, nodeTaskId, turnId: action?.id, confidence, verdict, onFailure: gate.onFailure },
        `the output of node ${JSON.stringify(nodeName)} ${verdict === "failed" ? "failed its validation" : "passed its validation with a warning"}`,
      );
    }
    this.#parts.reports.validated({ ...at, turnId: action?.id, ...validation });
    if (stops) throw validationFailed({ threadId, nodeName, nodeNs, nodeTaskId, turnId: action?.id }, gate, validation);
  }

  /**
   * A reason is words about content, which may be redacted or encrypted. If it can't be stored, that is logged, and the gate
   * decides as before.
   */
  async #saveValidation(attempt: Attempt, turnId: string, validation: Validation, stops: boolean): Promise<void> {
    const { store, options, redaction } = this.#parts;
    const keepsReasons = redaction.keepsAll && options.encryption === undefined;
    try {
      const stored = keepsReasons ? validation : { ...validation, reason: undefined };
      await store.saveValidation(turnId, JSON.stringify(stored), stops ? "error" : undefined, attempt.run.lease);
    } catch (error) {
      const { threadId, name: node } = attempt;
      options.logger.error({ threadId, node, turnId, error: String(error) }, "what a gate found could not be saved");
    }
  }

  async tokensUsed(caller: ModelCaller, tokens: TokenCounts): Promise<void> {
    const { threadId, nodeTaskId } = caller;
    try {
      await this.#parts.store.addTokens(caller, tokens);
    } catch (error) {
      if (TurnsError.is(error, "STORE_CLOSED")) return;
      this.#parts.options.logger.warn({ threadId, nodeTaskId, error: String(error) }, "token usage could not be saved");
    }
  }

  #leave(attempt: Attempt, failed: boolean): Awaitable<void> {
    return this.#parts.runs.nodeEnded(attempt.threadId, namespaceAbove(attempt.nodeNs), failed);
  }

  #unsaved(attempt: Attempt, turnType: TurnType, status: TurnStatus | undefined): UnsavedTurn {
    const { threadId, name: nodeName, nodeNs, nodeTaskId } = attempt;
    const { taskId, graphId } = this.#parts.names.of(threadId);
    return { threadId, graphId, taskId, nodeName, nodeNs, nodeTaskId, turnType, status };
  }

  /** What the rows of a Thought and an Action have in common. */
  #row(attempt: Attempt): Omit<NewAction, "status" | "update"> {
    const { threadId, name: nodeName, nodeNs, nodeTaskId, runId, step, run } = attempt;
    const { createId, clock } = this.#parts.options;
    return {
      id: createId(),
      threadId,
      sawDeletion: run.sawDeletion,
      lease: run.lease,
      nodeName,
      nodeNs,
      nodeTaskId,
      runId,
      step,
      claim: this.#claim(attempt),
      createdAt: clock().toISOString(),
      graph: run.graph?.reference,
      fingerprint: run.graph?.fingerprintAt(nodeNs),
    };
  }

  /** With durability "exit", a run's nodes start although its input was never saved. The first Thought then starts the task. */
  #claim({ threadId, runId, run }: Attempt): TaskClaim {
    const names = this.#parts.names.of(threadId);
    if (!this.#parts.runs.takeUnsavedInput(threadId, run.runId)) return { ...names, kind: "resume", name: runId };
    this.#parts.unsaved.forget(threadId);
    if (!this.#warnedOfExit) {
      this.#warnedOfExit = true;
      this.#parts.options.logger.warn(
        { threadId },
        'durability "exit" keeps no checkpoint until the run ends: a crash loses the whole run. Use "async", which costs nothing more here.',
      );
    }
    return { ...names, kind: "begin", name: run.runId };
  }

  #lost({ threadId, name: nodeName, nodeTaskId }: Attempt, turnType: TurnType, error: unknown): void {
    this.#parts.reports.turnLost(threadId, { nodeName, turnType, error }, nodeTaskId);
  }
}

/** A node may return a Command for the graph around its own. */
function untrackedOf({ run, nodeNs }: Attempt, outcome?: unknown): Untracked {
  const isForParent = isCommand(outcome) && outcome.graph === Command.PARENT;
  return run.graph?.untrackedAt(isForParent ? namespaceAbove(nodeNs) : nodeNs) ?? new Set();
}

function className(value: unknown): string {
  const { constructor } = Object(value) as { constructor?: { name?: string } };
  const name = constructor?.name ?? "a checkpointer without a class";
  return isSaver(value) ? `another ${name}` : name;
}
