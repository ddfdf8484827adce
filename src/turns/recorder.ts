import { BaseCallbackHandler } from "@langchain/core/callbacks/base";
import type { Serialized } from "@langchain/core/load/serializable";
import type { LLMResult } from "@langchain/core/outputs";
import type { RunnableConfig } from "@langchain/core/runnables";
import type { ChainValues } from "@langchain/core/utils/types";
import { TurnsError } from "../errors";
import { nodeTaskIdOf } from "../store/namespaces";
import type { Awaitable, Lease, TurnStatus } from "../store/store";
import type { AttachedGraph } from "./attached-graph";
import { CalledGraphs } from "./called-graphs";
import { around, Draining, OpenWork } from "./draining";
import {
  type Attempt,
  type Elsewhere,
  type GraphRun,
  handledTaskOf,
  isInReplaced,
  type Replaced,
  replacedAround,
  type NodeTaskInfo,
  type OuterRun,
} from "./node-task";
import { ModelRuns } from "./tokens";
import type { TurnLog } from "./turn-log";

export const RECORDER_NAME = "langgraph_checkpoint_turns_recorder";
/**
 * The key under which a saver's recorder carries its journal of side effects, so that `effect()` finds it among a run's
 * callbacks. A registered symbol, so that the ESM and the CommonJS build find each other.
 */
export const JOURNAL: unique symbol = Symbol.for("langgraph-checkpoint-turns.journal");

const STEP_TAG = /^graph:step:/;
const HIDDEN_TAG = "langsmith:hidden";

/** What LangChain tells about a run that starts. */
interface StartedRun {
  runId: string;
  parentRunId: string | undefined;
  tags: string[] | undefined;
  metadata: Record<string, unknown> | undefined;
  runName: string | undefined;
  elsewhere?: Elsewhere | undefined;
  /** What runs. */
  serialized?: Serialized;
}

interface Doubt {
  outerRunId: string;
  failure: Error;
}

/**
 * Tracks a saver's runs, as LangChain's callbacks report them (internals, section 4): which are graphs, which are attempts of
 * node tasks, and what contains each of them.
 */
export class TurnRecorder {
  /** What `effect()` looks for. */
  [JOURNAL]: { swallowed(attempt: Attempt): Error | undefined } | undefined;

  readonly bodies: OpenWork;
  /** Runs whose reader has left, until LangGraph has stopped them. */
  readonly left = new OpenWork();
  readonly #log: TurnLog;
  readonly #attempts = new Map<string, Attempt>();
  readonly #lineage = new Lineage();
  readonly #modelRuns = new ModelRuns();
  readonly #called = new CalledGraphs();
  /** Node tasks whose last attempt left an effect with an unknown outcome, while their outermost run continues. */
  readonly #doubts = new Map<string, Doubt>();
  /** Node tasks in which an effect was called, with their outermost run, while that continues. */
  readonly #withEffects = new Map<string, string>();

  readonly #draining: Draining;
  /** Nodes inside which a node was refused because the saver drains: no matter what they return, it is no result. */
  readonly #stoppedWithin = new WeakMap<Attempt, Error>();

  /** @param bodies counts the node bodies that are running */
  constructor(log: TurnLog, bodies: OpenWork, draining = new Draining()) {
    this.#log = log;
    this.bodies = bodies;
    this.#draining = draining;
  }

  /**
   * A graph, a node, or something inside a node starts. An error thrown here stops it, and LangGraph reports no end for it.
   *
   * @param graph the attached graph that reports it
   */
  async chainStarts(graph: AttachedGraph | undefined, inputs: ChainValues, started: StartedRun): Promise<void> {
    const { runId, parentRunId, tags, metadata, runName, elsewhere } = started;
    // The same handler bound to a graph and passed at invoke is called twice for one run.
    if (this.#lineage.has(runId)) return;
    const threadId = metadata?.["thread_id"];
    if (typeof threadId !== "string") return;
    const task = nodeTask(tags, metadata ?? {}, runName);
    const known =
      this.#lineage.enter(runId, parentRunId) ??
      this.#lineage.begin(runId, parentRunId, {
        ...{ runId, toldThreadId: threadId, sawDeletion: undefined, lease: undefined, graph, elsewhere, attempts: new Map() },
        isLate: this.#lineage.isLeftBehind(parentRunId),
      });
    const { outermost: run, attempt: within } = known;
    const isOutermost = run.runId === runId;
    if (isOutermost && task === undefined && run.elsewhere === undefined && this.#draining.begun) {
      this.#lineage.leave(runId);
      this.#draining.refuseRun(threadId);
    }
    if (isOutermost && run.elsewhere !== undefined) this.#log.startsElsewhere(threadId, run.elsewhere);
    // A graph that a node calls on another thread is reported with the outer thread, and so is everything inside it.
    const place = within !== undefined && threadId === run.toldThreadId ? within : { threadId, run };
    const graphOf = (id: string, isMarked: boolean): GraphRun => ({
      runId: id,
      threadId: place.threadId,
      run: place.run,
      isMarked,
    });
    known.bringsUpdate = bringsUpdate(inputs);
    if (within !== undefined && isGraphRun(started.serialized) && this.#called.isChanged(within, inputs))
      this.#log.callsWithAnotherInput(within);
    let starting: Attempt | undefined;
    try {
      const isGraph = task === undefined && metadata?.["langgraph_node"] === undefined && run.elsewhere === undefined;
      if (isOutermost && !isGraph) run.sawDeletion = await this.#log.deletionOf(threadId);
      if (task !== undefined) {
        const around = this.#lineage.get(parentRunId);
        const graph = around?.graph ?? graphOf(parentRunId ?? runId, false);
        if (around !== undefined) around.graph = graph;
        const attempt: Attempt = {
          name: task.name,
          step: task.step,
          triggers: task.triggers,
          path: task.path,
          nodeNs: task.nodeNs,
          nodeTaskId: task.nodeTaskId,
          threadId: graph.threadId,
          run: graph.run,
          runId,
          graph,
          input: inputs,
          calledIn: around?.parentRunId,
          isPlaced: graph.isMarked,
          within,
        };
        known.attempt = attempt;
        this.#attempts.set(runId, attempt);
        const earlier = run.attempts.get(attempt.nodeTaskId);
        if (earlier !== undefined) earlier.isReplaced = true;
        run.attempts.set(attempt.nodeTaskId, attempt);
        this.#refuseHandler(handledTaskOf(task));
        if (this.#draining.begun && run.elsewhere === undefined) await this.#stopBefore(attempt, run);
        starting = attempt;
        await this.#log.nodeStarts(attempt, inputs, { isState: !hasOwnInput(task), isUpdated: around?.bringsUpdate === true });
      } else if (isGraph) {
        known.graph = graphOf(runId, true);
        const lease = await this.#log.graphStarts(place.threadId, runId, bringsInput(inputs));
        if (isOutermost) run.lease = lease;
        if (isOutermost) run.sawDeletion = await this.#log.deletionOf(threadId);
      }
    } catch (error) {
      // What kept a node from starting is no failure of the node, so no error handler takes it for handled.
      if (starting !== undefined && !isInReplaced(starting))
        this.#doubts.set(starting.nodeTaskId, { outerRunId: run.runId, failure: error as Error });
      this.#attempts.delete(runId);
      this.#lineage.leave(runId);
      this.#draining.release(run, () => this.#running());
      throw error;
    }
  }

  /**
   * The saver drains, so the node doesn't start. Exception: a node inside another node starts if its graph keeps no checkpoints,
   * since the outer node's boundary comes next.
   *
   * @throws {TurnsError} STORE_DRAINING
   */
  async #stopBefore(attempt: Attempt, run: OuterRun): Promise<void> {
    if (attempt.within !== undefined && !(await this.#log.hasCheckpoint(attempt))) return;
    try {
      await this.#draining.hold(attempt, run, () => this.#running());
    } catch (error) {
      this.#doubts.set(attempt.nodeTaskId, { outerRunId: run.runId, failure: error as Error });
      for (const at of around(attempt, [...this.#attempts.values()])) this.#stoppedWithin.set(at, error as Error);
      throw error;
    }
  }

  *#running(): Generator<[Attempt, OuterRun]> {
    for (const attempt of this.#attempts.values()) {
      const outermost = this.#lineage.get(attempt.runId)?.outermost;
      if (outermost !== undefined) yield [attempt, outermost];
    }
  }

  /** The names of the nodes that are running on a thread. */
  nodesAtWork(threadId: string): string[] {
    const attempts = [...this.#attempts.values()].filter((attempt) => !this.#draining.isHeld(attempt));
    return attempts.filter((attempt) => attempt.threadId === threadId).map(({ name }) => name);
  }

  /** Whether a node task didn't start or finish because the saver drains. What LangGraph then says about it isn't saved. */
  wasStopped(nodeTaskId: string): boolean {
    return TurnsError.is(this.#doubts.get(nodeTaskId)?.failure, "STORE_DRAINING");
  }

  /** All steps of a graph run are over. @param checkpointId the last checkpoint */
  stepsEnded(runId: string, checkpointId: string): void {
    const known = this.#lineage.get(runId);
    if (known?.graph?.isMarked === true && known.outermost.runId === runId)
      this.#log.stepsEnded(known.graph.threadId, runId, checkpointId);
  }

  /**
   * A graph, a node, or something inside a node has finished.
   *
   * @throws for a node only: a gate's refusal, or an effect in doubt that the node swallowed
   */
  chainEnds(runId: string, status: TurnStatus, outcome: unknown): Awaitable<void> {
    const attempt = this.#attempts.get(runId);
    const outermost = this.#lineage.get(runId)?.outermost;
    // An attempt that timed out may continue in the background. Its effects are found by its run, until the outermost run is
    // over.
    const isLeft = attempt === undefined || status !== "error" || attempt.run.runId === runId;
    const over = isLeft ? this.#lineage.leave(runId) : [];
    this.#modelRuns.forget(runId);
    this.#attempts.delete(runId);
    if (attempt !== undefined) {
      if (status !== "error") attempt.run.attempts.delete(attempt.nodeTaskId);
      if (outermost !== undefined) this.#draining.release(outermost, () => this.#running());
      return this.#nodeEnds(attempt, status, outcome);
    }
    for (const [nodeTaskId, doubt] of this.#doubts) if (doubt.outerRunId === runId) this.#doubts.delete(nodeTaskId);
    for (const [nodeTaskId, outerRunId] of this.#withEffects) if (outerRunId === runId) this.#withEffects.delete(nodeTaskId);
    const graphs = over.filter(({ isMarked }) => isMarked);
    if (graphs.length > 0) return this.#graphsEnd(graphs);
  }

  /** LangGraph doesn't report the end of a nested graph that it aborts. */
  async #graphsEnd(graphs: readonly GraphRun[]): Promise<void> {
    for (const { threadId, runId } of graphs) await this.#log.graphEnds(threadId, runId);
  }

  #nodeEnds(attempt: Attempt, status: TurnStatus, outcome: unknown): Awaitable<void> {
    const failure = this[JOURNAL]?.swallowed(attempt) ?? this.#stoppedWithin.get(attempt);
    // An attempt without a doubt has settled what an earlier one left.
    if (failure === undefined) this.#doubts.delete(attempt.nodeTaskId);
    else this.#doubts.set(attempt.nodeTaskId, { outerRunId: attempt.run.runId, failure });
    if (failure === undefined || (status !== "ok" && status !== "handoff")) return this.#log.nodeEnds(attempt, status, outcome);
    return this.#nodeFails(attempt, failure);
  }

  /** It returned something although it must not have succeeded. */
  async #nodeFails(attempt: Attempt, failure: Error): Promise<never> {
    await this.#log.nodeEnds(attempt, "error", outcomeOfError(failure));
    throw failure;
  }

  /** A tool may call a graph. */
  toolStarts(runId: string, parentRunId: string | undefined): void {
    this.#lineage.enter(runId, parentRunId);
  }

  toolEnds(runId: string): void {
    this.#lineage.leave(runId);
  }

  /** The calling attempt isn't always the newest: one that timed out may still be running. */
  modelStarts(runId: string, parentRunId: string | undefined, metadata: Record<string, unknown> | undefined): void {
    const nodeNs = metadata?.["langgraph_checkpoint_ns"];
    const threadId = metadata?.["thread_id"];
    if (typeof nodeNs !== "string" || typeof threadId !== "string") return;
    const nodeTaskId = nodeTaskIdOf(nodeNs);
    const attempt = this.attemptOf(parentRunId, nodeTaskId);
    const caller = { threadId: attempt?.threadId ?? threadId, nodeTaskId: attempt?.nodeTaskId ?? nodeTaskId };
    this.#modelRuns.started(runId, { ...caller, attemptRunId: attempt?.runId, lease: attempt?.run.lease }, attempt?.run.runId);
  }

  /** A stream's usage comes with some of its chunks, mostly the last. */
  async modelStreams(runId: string, chunk: unknown): Promise<void> {
    const used = this.#modelRuns.streamed(runId, chunk);
    if (used !== undefined) await this.#log.tokensUsed(used.caller, used.tokens);
  }

  /** @param output undefined if the model failed */
  async modelEnds(runId: string, output: LLMResult | undefined): Promise<void> {
    const used = this.#modelRuns.ended(runId, output);
    if (used !== undefined) await this.#log.tokensUsed(used.caller, used.tokens);
  }

  /**
   * The attempt that code runs in, found by its run. If that run isn't known (it reports to other callbacks), the newest attempt
   * of its node task.
   */
  attemptOf(runId: string | undefined, nodeTaskId: string): Attempt | undefined {
    const found = this.#lineage.get(runId)?.attempt;
    if (found?.nodeTaskId === nodeTaskId) return found;
    return [...this.#attempts.values()].findLast((attempt) => attempt.nodeTaskId === nodeTaskId) ?? found;
  }

  /**
   * Like {@link attemptOf}, but undefined for a run that has finished. After a timeout, an abandoned attempt may still be
   * running, and the newest attempt isn't its own.
   */
  liveAttemptOf(runId: string | undefined, nodeTaskId: string): Attempt | undefined {
    if (runId !== undefined && !this.#lineage.has(runId)) return undefined;
    const attempt = this.attemptOf(runId, nodeTaskId);
    return attempt !== undefined && this.#attempts.has(attempt.runId) ? attempt : undefined;
  }

  /** An attempt calls an effect, found or done now. */
  callsEffect(attempt: Attempt): void {
    const outerRunId = this.#lineage.get(attempt.runId)?.outermost.runId ?? attempt.run.runId;
    for (const { nodeTaskId } of [attempt, ...around(attempt, [...this.#attempts.values()])])
      this.#withEffects.set(nodeTaskId, outerRunId);
  }

  /** Whether an effect was called in a node task, at any depth, since its outermost run began. */
  hasEffects(nodeTaskId: string): boolean {
    return this.#withEffects.has(nodeTaskId);
  }

  /** What a graph runs in, if it runs on although a new attempt, or a new run, continues it. */
  replacedBy(runId: string | undefined, threadId: string): Replaced | undefined {
    const attempt = this.#lineage.get(runId)?.attempt;
    const earlier = attempt && replacedAround(attempt, threadId);
    if (earlier !== undefined) return { runId: earlier.runId, node: earlier.name, by: "attempt" };
    return this.#lineage.replaced(runId, threadId);
  }

  /** The lease of the outermost run around a run. */
  leaseOf(runId: string | undefined): Lease | undefined {
    return this.#lineage.get(runId)?.outermost.lease;
  }

  /**
   * Whether the last attempt of a node task left an effect with an unknown outcome. An error handler must not pass over it: the
   * run would continue to where the side effect happens again. A resume has to find the node, not its handler.
   */
  endedInDoubt(nodeTaskId: string): boolean {
    return this.#doubts.has(nodeTaskId);
  }

  /** @throws the error that the failed node task should have failed with, even if the node changed it */
  #refuseHandler(handledTaskId: string | undefined): void {
    const doubt = handledTaskId === undefined ? undefined : this.#doubts.get(handledTaskId);
    // LangGraph takes the error object of a node with a handler for handled, so it would silently ignore the same object.
    if (doubt !== undefined) throw copied(doubt.failure);
  }
}

/** Enough for the branches of any run; most of them never report their end. */
const LEFT_BEHIND_MAX = 10_000;

interface KnownRun {
  outermost: OuterRun;
  parentRunId: string | undefined;
  /** The node task's attempt that this run is, or is inside. */
  attempt: Attempt | undefined;
  /** The graph that this is a run of, if known. */
  graph: GraphRun | undefined;
  /** Whether it was called with a Command that updates the state. */
  bringsUpdate: boolean;
}

/** Names only: an attempt would keep its node's input in memory. */
type LeftBehind = Omit<Replaced, "by"> & { threadId: string; by: Replaced["by"] | undefined };

/** Which outermost run contains each run: a nested graph started with the run around it. */
class Lineage {
  readonly #runs = new Map<string, KnownRun>();
  readonly #inner = new Map<OuterRun, Set<string>>();
  /** Branches that LangGraph aborted and that were still running when their outermost run was over, oldest first. */
  readonly #leftBehind = new Map<string, LeftBehind>();

  has(runId: string): boolean {
    return this.#runs.has(runId);
  }

  get(runId: string | undefined): KnownRun | undefined {
    return runId === undefined ? undefined : this.#runs.get(runId);
  }

  isLeftBehind(runId: string | undefined): boolean {
    return runId !== undefined && this.#leftBehind.has(runId);
  }

  /** A branch that was left behind, if it runs on beside a new run of its thread, or was replaced before. */
  replaced(runId = "", threadId: string): Replaced | undefined {
    const left = this.#leftBehind.get(runId);
    if (left?.by === undefined || left.threadId !== threadId) return undefined;
    return { runId: left.runId, node: left.node, by: left.by };
  }

  begin(runId: string, parentRunId: string | undefined, outermost: OuterRun): KnownRun {
    const { isLate, toldThreadId } = outermost;
    for (const left of this.#leftBehind.values()) if (!isLate && left.threadId === toldThreadId) left.by ??= "run";
    const known = { outermost, parentRunId, attempt: undefined, graph: undefined, bringsUpdate: false };
    this.#runs.set(runId, known);
    this.#inner.set(outermost, new Set());
    return known;
  }

  /** @returns undefined if the run isn't part of a known one */
  enter(runId: string, parentRunId: string | undefined): KnownRun | undefined {
    const parent = this.get(parentRunId);
    if (parent === undefined) return undefined;
    const { outermost, attempt } = parent;
    const known = { outermost, parentRunId, attempt, graph: undefined, bringsUpdate: false };
    this.#runs.set(runId, known);
    this.#inner.get(outermost)?.add(runId);
    return known;
  }

  /**
   * Removes a run. With the outermost run, everything in it is removed: an aborted branch never reports its end.
   *
   * @returns the removed graphs, the outermost last
   */
  leave(runId: string): GraphRun[] {
    const left = this.#runs.get(runId);
    this.#runs.delete(runId);
    if (left === undefined) return [];
    const { outermost } = left;
    const inner = [...(this.#inner.get(outermost) ?? [])];
    if (outermost.runId !== runId) {
      this.#inner.get(outermost)?.delete(runId);
      return left.graph === undefined ? [] : [left.graph];
    }
    const over = [...inner.map((id) => this.#runs.get(id)), left].flatMap((known) => known?.graph ?? []);
    const threadId = outermost.toldThreadId;
    for (const id of inner) {
      const attempt = this.#runs.get(id)?.attempt;
      const earlier = replacedAround(attempt, attempt?.threadId);
      const { runId: of = id, name: node } = earlier ?? attempt ?? { name: undefined };
      this.#leftBehind.set(id, { threadId, runId: of, node, by: earlier === undefined ? undefined : "attempt" });
      this.#runs.delete(id);
    }
    this.#inner.delete(outermost);
    for (const oldest of this.#leftBehind.keys()) {
      if (this.#leftBehind.size <= LEFT_BEHIND_MAX) break;
      this.#leftBehind.delete(oldest);
    }
    return over;
  }
}

/** The arguments LangChain calls a handler with; undefined in the positions that don't matter here. */
type Told<K extends keyof BaseCallbackHandler> = Required<BaseCallbackHandler>[K] extends (...args: infer A) => unknown
  ? A
  : never;

/**
 * The handler that a graph carries. Because of `awaitHandlers`, LangGraph awaits `handleChainStart` before a node's body. Because
 * of `raiseError`, it stops the node if that throws. An error thrown from an end handler fails a node after its work is done.
 * Only a gate and the journal of effects do that, on purpose. LangGraph leaves a graph for its parent by throwing a
 * ParentCommand, and an error thrown from the error handler replaces it.
 *
 * Callbacks don't say which graph is running, so the handler does. Several handlers may see the same run (nested graphs, both
 * attached; or the same graph twice). The recorder then takes it from the first that reports it. The outermost run decides which
 * graph a run belongs to.
 */
export class RecorderFace extends BaseCallbackHandler {
  /** Messages about a config that somebody saves name it so. */
  static override readonly name = "SaverCallbackHandler";

  readonly name = RECORDER_NAME;
  override readonly awaitHandlers = true;
  override readonly raiseError = true;
  /** LangChain creates promises for each kind of event that isn't ignored. */
  override readonly ignoreRetriever = true;
  override readonly ignoreCustomEvent = true;
  readonly recorder: TurnRecorder;
  readonly graph: AttachedGraph;
  readonly #elsewhere: Elsewhere | undefined;

  /** @param elsewhere given for runs that don't use the recorder's saver */
  constructor(recorder: TurnRecorder, graph: AttachedGraph, elsewhere?: Elsewhere) {
    super();
    this.recorder = recorder;
    this.graph = graph;
    this.#elsewhere = elsewhere;
  }

  /** @returns the handler for a run of the same graph that uses this checkpointer, or none */
  without(checkpointer: unknown): RecorderFace {
    return new RecorderFace(this.recorder, this.graph, { checkpointer });
  }

  /** What `effect()` looks for. */
  get [JOURNAL](): unknown {
    return this.recorder[JOURNAL];
  }

  /** Where the nodes of the graph count their bodies; undefined if another checkpointer keeps the run. */
  get bodies(): unknown {
    return this.isElsewhere ? undefined : this.recorder.bodies;
  }

  /** Whether another checkpointer than the recorder's own keeps the run. */
  get isElsewhere(): boolean {
    return this.#elsewhere !== undefined;
  }

  /** The declared type has another order; core passes the run's type before its name. */
  override handleChainStart(...args: Told<"handleChainStart">): Promise<void> {
    const [serialized, inputs, runId, parentRunId, tags, metadata, , runName] = args;
    const started = { serialized, runId, parentRunId, tags, metadata, runName, elsewhere: this.#elsewhere };
    return this.recorder.chainStarts(this.graph, inputs, started).catch(throwUnprinted);
  }

  override handleChainEnd(outputs: ChainValues, runId: string): Awaitable<void> {
    return unprintedIn(() => this.recorder.chainEnds(runId, "ok", outputs));
  }

  override handleChainError(error: unknown, runId: string): Awaitable<void> {
    return unprintedIn(() => this.recorder.chainEnds(runId, statusOfError(error), outcomeOfError(error)));
  }

  override handleToolStart(_tool: Serialized, _input: string, runId: string, parentRunId?: string): void {
    this.recorder.toolStarts(runId, parentRunId);
  }

  override handleToolEnd(_output: unknown, runId: string): void {
    this.recorder.toolEnds(runId);
  }

  override handleToolError(_error: unknown, runId: string): void {
    this.recorder.toolEnds(runId);
  }

  override handleChatModelStart(...[, , runId, parentRunId, , , metadata]: Told<"handleChatModelStart">): void {
    this.recorder.modelStarts(runId, parentRunId, metadata);
  }

  override handleLLMStart(...[, , runId, parentRunId, , , metadata]: Told<"handleLLMStart">): void {
    this.recorder.modelStarts(runId, parentRunId, metadata);
  }

  override handleLLMNewToken(...[, , runId, , , fields]: Told<"handleLLMNewToken">): Promise<void> {
    return this.recorder.modelStreams(runId, fields?.chunk);
  }

  override handleLLMEnd(output: LLMResult, runId: string): Promise<void> {
    return this.recorder.modelEnds(runId, output);
  }

  override handleLLMError(_error: unknown, runId: string): Promise<void> {
    return this.recorder.modelEnds(runId, undefined);
  }
}

/**
 * Whether this recorder records a run with these callbacks. Another saver's recorder, from a graph around this one, doesn't
 * count.
 */
export function isRecorded(callbacks: RunnableConfig["callbacks"], recorder: TurnRecorder): boolean {
  return faceIn(callbacks, recorder) !== undefined;
}

export function faceIn(callbacks: RunnableConfig["callbacks"], recorder: TurnRecorder): RecorderFace | undefined {
  const handlers: unknown[] = Array.isArray(callbacks) ? callbacks : (callbacks?.handlers ?? []);
  return handlers.find((handler) => isRecorderOf(handler, recorder));
}

export function isRecorderOf(handler: unknown, recorder: TurnRecorder): handler is RecorderFace {
  return handler instanceof RecorderFace && handler.recorder === recorder;
}

/** Whether LangChain tells of a graph, by the class that it names. */
function isGraphRun(serialized: Serialized | undefined): boolean {
  return serialized?.id?.[0] === "langgraph" && serialized.id[1] === "pregel";
}

function throwUnprinted(error: unknown): never {
  throw unprinted(error);
}

/** Does something of a handler. @throws what that throws, {@link unprinted} */
function unprintedIn(work: () => Awaitable<void>): Awaitable<void> {
  try {
    const done = work();
    return done instanceof Promise ? done.catch(throwUnprinted) : done;
  } catch (error) {
    return throwUnprinted(error);
  }
}

/**
 * Makes an error that LangChain passes on without printing it.
 *
 * LangChain writes ``console.error(`Error in handler ${name}, …: ${error}`)`` for every error of a callback handler, and only
 * then rethrows it. The recorder throws on purpose, to stop a node, and the caller of the graph gets the error anyway. The object
 * returned here throws the original error when it is converted to text. So nothing is printed, and LangChain's callers get the
 * original error. For a LangChain that doesn't convert it, the object inherits from the error and stands in for it.
 *
 * @param error what a handler is about to throw
 */
export function unprinted(error: unknown): Error {
  const standIn = Object.create(error instanceof Error ? error : new Error(String(error))) as Error;
  return Object.defineProperty(standIn, Symbol.toPrimitive, {
    value: () => {
      throw error;
    },
  });
}

/** The node task that a run is, or undefined for everything around and inside nodes. */
function nodeTask(
  tags: string[] | undefined,
  metadata: Record<string, unknown>,
  runName: string | undefined,
): NodeTaskInfo | undefined {
  if (tags === undefined || !tags.some((tag) => STEP_TAG.test(tag)) || tags.includes(HIDDEN_TAG)) return undefined;
  const { langgraph_node: name, langgraph_checkpoint_ns: nodeNs, langgraph_step: step } = metadata;
  if (typeof name !== "string" || typeof nodeNs !== "string" || typeof step !== "number") return undefined;
  // A raw Pregel node without writers isn't a sequence, and its tag reaches its parts.
  if (runName !== undefined && runName !== name) return undefined;
  const triggers = Array.isArray(metadata["langgraph_triggers"]) ? (metadata["langgraph_triggers"] as unknown[]) : [];
  const path = Array.isArray(metadata["langgraph_path"]) ? (metadata["langgraph_path"] as unknown[]) : [];
  return { name, step, triggers, path, nodeNs, nodeTaskId: nodeTaskIdOf(nodeNs) };
}

/** Sends, functional tasks and functional entrypoints are called with something other than the state. */
function hasOwnInput(task: NodeTaskInfo): boolean {
  return task.path[0] === "__pregel_push" || task.triggers.includes("__start__");
}

/** `null` resumes and a Command steers; everything else is new input. */
function bringsInput(inputs: ChainValues): boolean {
  const given = unwrapped(inputs);
  return given !== null && given !== undefined && !isCommand(given);
}

function bringsUpdate(inputs: ChainValues): boolean {
  const given = unwrapped(inputs);
  return isCommand(given) && given.update !== undefined;
}

function isCommand(given: unknown): given is { update?: unknown } {
  return (given as { lg_name?: unknown } | null | undefined)?.lg_name === "Command";
}

/** The value a run was called with: LangChain wraps values that aren't objects. */
function unwrapped(inputs: ChainValues): unknown {
  return "input" in inputs && Object.keys(inputs).length === 1 ? inputs["input"] : inputs;
}

function statusOfError(error: unknown): TurnStatus {
  const name = (error as { name?: unknown } | null)?.name;
  if (name === "ParentCommand") return "handoff";
  return name === "GraphInterrupt" || name === "NodeInterrupt" ? "interrupted" : "error";
}

/** For a handoff, it is the Command: what the node or the graph inside it returned, and what a parent will apply. */
function outcomeOfError(error: unknown): unknown {
  const { name, message, stack, interrupts, command } = (error ?? {}) as Record<string, unknown>;
  if (name === "ParentCommand" && command !== undefined) return command;
  if (Array.isArray(interrupts)) return { interrupts: interrupts as unknown[] };
  const frames = framesOf(stack, message);
  return {
    error: {
      name: typeof name === "string" ? name : "Error",
      message: typeof message === "string" ? message : String(error),
      ...(frames !== "" && { stack: frames }),
    },
  };
}

const MOST_FRAMES = 50;
const LONGEST_FRAME = 400;

/** Where an error was thrown: the frames of its stack. What precedes them repeats the message, which `redact` may take out. */
function framesOf(stack: unknown, message: unknown): string {
  if (typeof stack !== "string") return "";
  const at = typeof message === "string" ? stack.indexOf(message) : -1;
  const rest = at < 0 ? stack : stack.slice(at + String(message).length);
  const frames = rest.split("\n").filter((line) => /^ {4}at /.test(line) && line.length <= LONGEST_FRAME);
  return frames.slice(0, MOST_FRAMES).join("\n");
}

function copied(error: Error): Error {
  return Object.create(Object.getPrototypeOf(error) as object, Object.getOwnPropertyDescriptors(error)) as Error;
}
