import { BaseCallbackHandler } from "@langchain/core/callbacks/base";
import type { Serialized } from "@langchain/core/load/serializable";
import type { LLMResult } from "@langchain/core/outputs";
import type { ChainValues } from "@langchain/core/utils/types";
import type { Lease, SawDeletion, TokenCounts, TurnStatus } from "../store/store";
import { JOURNAL } from "./journal-key";
import type { LiveBodies } from "./live-bodies";
import type { AttachedGraph } from "./attached-graph";
import { handledTaskOf, type NodeTaskInfo, nodeTaskIdOf } from "./node-task";
import { Doubts } from "./recorder-doubts";
import { type ModelCaller, ModelRuns } from "./recorder-models";

export const RECORDER_NAME = "langgraph_checkpoint_turns_recorder";

const STEP_TAG = /^graph:step:/;
const HIDDEN_TAG = "langsmith:hidden";

/** A node task as it runs: one attempt. */
export interface Attempt extends NodeTaskInfo {
  threadId: string;
  runId: string;
  /** The outermost run that this is a part of. */
  run: OuterRun;
  /** What the node was called with. */
  input: unknown;
  /** The attempt of the node task that this one runs inside of. */
  within: Attempt | undefined;
}

export interface OuterRun {
  runId: string;
  sawDeletion: SawDeletion;
  /** What it holds its thread by: all that is saved in it, on whichever thread, is refused when somebody else has taken that. */
  lease: Lease | undefined;
  /** The attached graph that runs; graphs inside it belong to it. */
  graph: AttachedGraph | undefined;
  /** Set for a run that doesn't use the recorder's saver: nothing of its thread is in our file, apart from its effects. */
  elsewhere: Elsewhere | undefined;
  /** Begun by work that a run has left behind, when that run was over: whatever it does, a later run may be at the same. */
  isLate: boolean;
}

/** What a run keeps its checkpoints with, if not with the recorder's saver; undefined: with nothing. */
export interface Elsewhere {
  checkpointer: unknown;
}

/** What LangChain tells about a run that starts. */
export interface StartedRun {
  runId: string;
  parentRunId: string | undefined;
  tags: string[] | undefined;
  metadata: Record<string, unknown> | undefined;
  runName: string | undefined;
  elsewhere?: Elsewhere | undefined;
}

/**
 * Where the recorder's observations go. `graphStarts` and `nodeStarts` may throw, which stops the run before its work, and `nodeEnds` of a node that
 * ended well or hands over to a parent, which makes LangGraph take it for failed: for a result that must not be built upon.
 */
export interface TurnSink {
  /** A run begins that doesn't use the recorder's saver: neither its start nor its end is told. */
  startsElsewhere(threadId: string, elsewhere: Elsewhere): void;
  /** What a run finds that begins now. */
  deletionOf(threadId: string): Promise<SawDeletion>;
  /** @returns what the run holds the thread by */
  graphStarts(threadId: string, runId: string, kind: { bringsInput: boolean; isInner: boolean }): Promise<Lease | undefined>;
  graphEnds(threadId: string, runId: string): Promise<void>;
  /** `input` is what the node was called with; `hasOwnInput` says that it cannot be the state of a checkpoint. */
  nodeStarts(attempt: Attempt, input: ChainValues, hasOwnInput: boolean): Promise<void>;
  nodeEnds(attempt: Attempt, status: TurnStatus, outcome: unknown): Promise<void>;
  tokensUsed(caller: ModelCaller, tokens: TokenCounts): Promise<void>;
}

/**
 * Sees each node execution from the inside of LangGraph's callback system (internals, section 4). LangGraph awaits
 * `handleChainStart` before a node's body because of `awaitHandlers`, and stops the node if it throws because of `raiseError`. A throw
 * from an end handler fails a node after its work is done, so that only a gate does it on purpose, and the journal of effects. LangGraph
 * leaves a graph for its parent by throwing a ParentCommand: a throw from the error handler takes its place.
 */
export class TurnRecorder extends BaseCallbackHandler {
  readonly name = RECORDER_NAME;
  override readonly awaitHandlers = true;
  override readonly raiseError = true;

  /** What `effect()` looks for. */
  [JOURNAL]: { swallowed(attempt: Attempt): Error | undefined } | undefined;

  readonly bodies: LiveBodies;
  readonly #sink: TurnSink;
  readonly #attempts = new Map<string, Attempt>();
  readonly #graphRuns = new Map<string, string>();
  readonly #lineage = new Lineage();
  readonly #modelRuns = new ModelRuns();
  readonly #doubts = new Doubts();

  /** @param bodies counts the bodies of nodes that run */
  constructor(sink: TurnSink, bodies: LiveBodies) {
    super();
    this.#sink = sink;
    this.bodies = bodies;
  }

  override async handleChainStart(
    _chain: Serialized,
    inputs: ChainValues,
    runId: string,
    parentRunId?: string,
    tags?: string[],
    metadata?: Record<string, unknown>,
    // The declared type has another order; core calls with the run's type before its name.
    _runType?: string,
    runName?: string,
  ): Promise<void> {
    return this.chainStarts(undefined, inputs, { runId, parentRunId, tags, metadata, runName });
  }

  /** @param graph the attached graph that says so */
  async chainStarts(graph: AttachedGraph | undefined, inputs: ChainValues, started: StartedRun): Promise<void> {
    const { runId, parentRunId, tags, metadata, runName, elsewhere } = started;
    // The same handler bound to a graph and passed at invoke is called twice for one run.
    if (this.#lineage.has(runId)) return;
    const threadId = metadata?.["thread_id"];
    if (typeof threadId !== "string") return;
    const run = this.#lineage.enter(runId, parentRunId, graph, elsewhere);
    const task = nodeTask(tags, metadata ?? {}, runName);
    const isGraph = task === undefined && metadata?.["langgraph_node"] === undefined;
    if (run.runId === runId && run.elsewhere !== undefined) this.#sink.startsElsewhere(threadId, run.elsewhere);
    if (isGraph && run.elsewhere === undefined) this.#graphRuns.set(runId, threadId);
    if (run.runId === runId) run.sawDeletion = await this.#sink.deletionOf(threadId);
    if (task !== undefined) {
      const attempt = { ...task, threadId, runId, run, input: inputs, within: this.#lineage.attemptOf(parentRunId) };
      this.#attempts.set(runId, attempt);
      this.#lineage.isAttempt(runId, attempt);
      // A throw passes through: this is the one place where a node can still be stopped.
      try {
        this.#doubts.refuseHandler(handledTaskOf(task));
        await this.#sink.nodeStarts(attempt, inputs, hasOwnInput(task));
      } catch (error) {
        this.#attempts.delete(runId);
        this.#lineage.leave(runId);
        throw error;
      }
      return;
    }
    if (!this.#graphRuns.has(runId)) return;
    try {
      const isInner = run.runId !== runId && this.#graphRuns.get(run.runId) === threadId;
      const lease = await this.#sink.graphStarts(threadId, runId, { bringsInput: bringsInput(inputs), isInner });
      if (run.runId === runId) run.lease = lease;
    } catch (error) {
      // LangGraph reports no end of a run that was refused.
      this.#graphRuns.delete(runId);
      this.#lineage.leave(runId);
      throw error;
    }
  }

  override async handleChainEnd(outputs: ChainValues, runId: string): Promise<void> {
    await this.#ended(runId, "ok", outputs);
  }

  override async handleChainError(error: unknown, runId: string): Promise<void> {
    await this.#ended(runId, statusOfError(error), outcomeOfError(error));
  }

  /** A tool may call a graph. */
  override handleToolStart(_tool: Serialized, _input: string, runId: string, parentRunId?: string): void {
    if (parentRunId !== undefined && this.#lineage.has(parentRunId)) this.#lineage.enter(runId, parentRunId);
  }

  override handleToolEnd(_output: unknown, runId: string): void {
    this.#lineage.leave(runId);
  }

  override handleToolError(_error: unknown, runId: string): void {
    this.#lineage.leave(runId);
  }

  override handleChatModelStart(
    _llm: Serialized,
    _messages: unknown,
    runId: string,
    parentRunId?: string,
    _extra?: Record<string, unknown>,
    _tags?: string[],
    metadata?: Record<string, unknown>,
  ): void {
    this.#modelStarted(runId, parentRunId, metadata);
  }

  override handleLLMStart(
    _llm: Serialized,
    _prompts: string[],
    runId: string,
    parentRunId?: string,
    _extra?: Record<string, unknown>,
    _tags?: string[],
    metadata?: Record<string, unknown>,
  ): void {
    this.#modelStarted(runId, parentRunId, metadata);
  }

  /** A stream's usage comes with some of its chunks, mostly the last. */
  override async handleLLMNewToken(
    _token: string,
    _index: unknown,
    runId: string,
    _parentRunId?: string,
    _tags?: string[],
    fields?: { chunk?: unknown },
  ): Promise<void> {
    const used = this.#modelRuns.streamed(runId, fields?.chunk);
    if (used !== undefined) await this.#sink.tokensUsed(used.caller, used.tokens);
  }

  override async handleLLMEnd(output: LLMResult, runId: string): Promise<void> {
    const used = this.#modelRuns.ended(runId, output);
    if (used !== undefined) await this.#sink.tokensUsed(used.caller, used.tokens);
  }

  override handleLLMError(_error: unknown, runId: string): void {
    this.#modelRuns.failed(runId);
  }

  /**
   * The attempt that code runs in, by the run it finds itself in; where that one is not known (a run that reports to other callbacks),
   * the newest attempt of its node task.
   */
  attemptOf(runId: string | undefined, nodeTaskId: string): Attempt | undefined {
    const found = this.#lineage.attemptOf(runId);
    if (found?.nodeTaskId === nodeTaskId) return found;
    return [...this.#attempts.values()].findLast((attempt) => attempt.nodeTaskId === nodeTaskId) ?? found;
  }

  /**
   * As {@link attemptOf}, but nothing for a run that has ended: the newest attempt of its node task is not its own, if it was given up
   * (a timeout) and still works.
   */
  liveAttemptOf(runId: string | undefined, nodeTaskId: string): Attempt | undefined {
    if (runId !== undefined && !this.#lineage.has(runId)) return undefined;
    const attempt = this.attemptOf(runId, nodeTaskId);
    return attempt !== undefined && this.#attempts.has(attempt.runId) ? attempt : undefined;
  }

  /** What the outermost run around a run holds its thread by. */
  leaseOf(runId: string | undefined): Lease | undefined {
    return runId === undefined ? undefined : this.#lineage.leaseOf(runId);
  }

  /** The newest attempt of a node task need not be the one that calls: one that has timed out may still be at work. */
  #modelStarted(runId: string, parentRunId: string | undefined, metadata: Record<string, unknown> | undefined): void {
    const nodeNs = metadata?.["langgraph_checkpoint_ns"];
    const threadId = metadata?.["thread_id"];
    if (typeof nodeNs !== "string" || typeof threadId !== "string") return;
    const nodeTaskId = nodeTaskIdOf(nodeNs);
    const attempt = this.attemptOf(parentRunId, nodeTaskId);
    const caller = { threadId: attempt?.threadId ?? threadId, nodeTaskId: attempt?.nodeTaskId ?? nodeTaskId };
    this.#modelRuns.started(runId, { ...caller, attemptRunId: attempt?.runId, lease: attempt?.run.lease }, attempt?.run.runId);
  }

  /**
   * Whether the last attempt of a node task has left an effect of which nobody knows what it came to. An error handler must not pass over
   * it: it would lead on to where the deed is done again, and a resume has to find the node, not its handler.
   */
  endedInDoubt(nodeTaskId: string): boolean {
    return this.#doubts.has(nodeTaskId);
  }

  async #ended(runId: string, status: TurnStatus, outcome: unknown): Promise<void> {
    const attempt = this.#attempts.get(runId);
    // One that timed out may go on behind everybody's back: what it still does is found by its run, until the outermost run is over.
    if (attempt === undefined || status !== "error" || attempt.run.runId === runId) this.#lineage.leave(runId);
    this.#modelRuns.forget(runId);
    this.#attempts.delete(runId);
    if (attempt !== undefined) {
      const doubt = this[JOURNAL]?.swallowed(attempt);
      this.#doubts.ended(attempt.nodeTaskId, attempt.run.runId, doubt);
      const failure = status === "ok" || status === "handoff" ? doubt : undefined;
      if (failure === undefined) return this.#sink.nodeEnds(attempt, status, outcome);
      await this.#sink.nodeEnds(attempt, "error", outcomeOfError(failure));
      throw failure;
    }
    this.#doubts.forget(runId);
    const threadId = this.#graphRuns.get(runId);
    this.#graphRuns.delete(runId);
    if (threadId !== undefined) await this.#sink.graphEnds(threadId, runId);
  }
}

/** Enough for the branches of any run; most of them never tell their end. */
const LEFT_BEHIND_MAX = 10_000;

/** Which outermost run each run is a part of: a graph inside a node began when the run around it did. */
class Lineage {
  readonly #outer = new Map<string, OuterRun>();
  /** The node task's attempt that a run is, or is inside of. */
  readonly #attempts = new Map<string, Attempt>();
  readonly #inner = new Map<OuterRun, Set<string>>();
  /** What was still at work when its outermost run was over (a branch that LangGraph aborted), the oldest first. */
  readonly #leftBehind = new Set<string>();

  leaseOf(runId: string): Lease | undefined {
    return this.#outer.get(runId)?.lease;
  }

  has(runId: string): boolean {
    return this.#outer.has(runId);
  }

  enter(runId: string, parentRunId: string | undefined, graph?: AttachedGraph, elsewhere?: Elsewhere): OuterRun {
    const known = parentRunId === undefined ? undefined : this.#outer.get(parentRunId);
    const isLate = parentRunId !== undefined && this.#leftBehind.has(parentRunId);
    const run = known ?? { runId, sawDeletion: undefined, lease: undefined, graph, elsewhere, isLate };
    this.#outer.set(runId, run);
    const attempt = this.attemptOf(parentRunId);
    if (attempt !== undefined) this.#attempts.set(runId, attempt);
    if (known === undefined) this.#inner.set(run, new Set());
    else this.#inner.get(run)?.add(runId);
    return run;
  }

  /** With the outermost run all goes that was a part of it: a stream that was broken off never reports its end. */
  leave(runId: string): void {
    const run = this.#outer.get(runId);
    this.#forget(runId);
    if (run === undefined) return;
    if (run.runId !== runId) return void this.#inner.get(run)?.delete(runId);
    for (const inner of this.#inner.get(run) ?? []) {
      this.#forget(inner);
      this.#leftBehind.add(inner);
    }
    this.#inner.delete(run);
    for (const oldest of [...this.#leftBehind].slice(0, Math.max(0, this.#leftBehind.size - LEFT_BEHIND_MAX)))
      this.#leftBehind.delete(oldest);
  }

  isAttempt(runId: string, attempt: Attempt): void {
    this.#attempts.set(runId, attempt);
  }

  attemptOf(runId: string | undefined): Attempt | undefined {
    return runId === undefined ? undefined : this.#attempts.get(runId);
  }

  #forget(runId: string): void {
    this.#outer.delete(runId);
    this.#attempts.delete(runId);
  }
}

/** The node task a run is, or undefined for all that runs around and inside of nodes. */
function nodeTask(
  tags: string[] | undefined,
  metadata: Record<string, unknown>,
  runName: string | undefined,
): NodeTaskInfo | undefined {
  if (tags === undefined || !tags.some((tag) => STEP_TAG.test(tag)) || tags.includes(HIDDEN_TAG)) return undefined;
  const { langgraph_node: name, langgraph_checkpoint_ns: nodeNs, langgraph_step: step } = metadata;
  if (typeof name !== "string" || typeof nodeNs !== "string" || typeof step !== "number") return undefined;
  // A raw Pregel node without writers is no sequence, and its tag reaches what it is made of.
  if (runName !== undefined && runName !== name) return undefined;
  const triggers = Array.isArray(metadata["langgraph_triggers"]) ? (metadata["langgraph_triggers"] as unknown[]) : [];
  const path = Array.isArray(metadata["langgraph_path"]) ? (metadata["langgraph_path"] as unknown[]) : [];
  return { name, step, triggers, path, nodeNs, nodeTaskId: nodeTaskIdOf(nodeNs) };
}

/** Sends, functional tasks and functional entrypoints are called with something else than the state. */
function hasOwnInput(task: NodeTaskInfo): boolean {
  return task.path[0] === "__pregel_push" || task.triggers.includes("__start__");
}

/** `null` resumes and a Command steers; all else is new input. */
function bringsInput(inputs: ChainValues): boolean {
  const wrapped: unknown = "input" in inputs && Object.keys(inputs).length === 1 ? inputs["input"] : inputs;
  if (wrapped === null || wrapped === undefined) return false;
  return (wrapped as { lg_name?: unknown }).lg_name !== "Command";
}

function statusOfError(error: unknown): TurnStatus {
  const name = (error as { name?: unknown } | null)?.name;
  if (name === "ParentCommand") return "handoff";
  return name === "GraphInterrupt" || name === "NodeInterrupt" ? "interrupted" : "error";
}

/** Of a handoff it is the Command: what the node returned, or the graph inside of it, and what a parent will apply. */
function outcomeOfError(error: unknown): unknown {
  const { name, message, interrupts, command } = (error ?? {}) as Record<string, unknown>;
  if (name === "ParentCommand" && command !== undefined) return command;
  if (Array.isArray(interrupts)) return { interrupts: interrupts as unknown[] };
  return {
    error: { name: typeof name === "string" ? name : "Error", message: typeof message === "string" ? message : String(error) },
  };
}
