import type { DrainOptions, DrainReport } from "./drain";
import { describe, TurnsError } from "./errors";
import type { SaverEmitter } from "./events";
import type { Effects } from "./effects/effects";
import { nodePathOf, ofNode } from "./guards/fingerprint";
import { CheckpointFile } from "./report/checkpoint-file";
import {
  type CompensationReport,
  type FinishRequest,
  type RewindReport,
  type RewindRequest,
  type TakeBackReport,
  unfinishedRewind,
} from "./rewind/plan";
import {
  attachOptionsOf,
  checkedCall,
  type CheckedRunnerOptions,
  checkedRunnerOptions,
  checkThread,
  type GraphRunnerOptions,
  refuseUnknownNodes,
} from "./runner/options";
import { assess, type Assessment, nothingToResume } from "./runner/assess";
import { inWords, repeatedBy, restarted, restartInDoubt, rollBack, rollbackAsked, type Start } from "./runner/restart";
import { statusOf, type ThreadStatus } from "./runner/status";
import { isResume, repeats, isUnreadable, unfinishedOf, unfinishedWork } from "./runner/last-run";
import { TurnSaver } from "./saver";
import type { RewindCounts } from "./store/store";
import { pregelOf, type PregelLike } from "./turns/attached-graph";
import type { Turn } from "./turns/turn";

export type { GraphRunnerOptions, NodeOptions } from "./runner/options";
export type { ThreadStatus, NodeOutcome } from "./runner/status";

/** What a {@link GraphRunner} runs: a compiled graph, a functional entrypoint, or an agent that carries its graph as `.graph`. */
export interface RunnableGraph {
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- the graph's own input, output and config types are kept by inference
  invoke(input: any, config?: any): Promise<any>;
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- as above
  stream(input: any, config?: any): Promise<any>;
}

/** Where a run belongs, beside LangGraph's own config, which is passed on. */
export type RunOptions<G extends RunnableGraph = RunnableGraph> = Omit<LangGraphConfig<G>, "configurable"> & {
  threadId: string;
  /** The user's task this input belongs to. Not given: the input starts one, named after its checkpoint. */
  taskId?: string;
  graphId?: string;
  /** Overrides the runner's `onUnfinished` for this call. */
  onUnfinished?: GraphRunnerOptions["onUnfinished"];
  /** Overrides the runner's `drift` for this call. */
  drift?: GraphRunnerOptions["drift"];
  configurable?: Record<string, unknown>;
};

export type Result<G extends RunnableGraph> = Awaited<ReturnType<G["invoke"]>>;

export type LangGraphConfig<G extends RunnableGraph> = NonNullable<Parameters<G["invoke"]>[1]> &
  NonNullable<Parameters<G["stream"]>[1]>;

export type ResumeOptions<G extends RunnableGraph = RunnableGraph> = Omit<RunOptions<G>, "onUnfinished" | "threadId"> & {
  threadId: string;
  /**
   * LangGraph's `new Command({ resume })`, for a thread that waits for a person. Not given: the run continues where it stopped. After a
   * crash the question on record may have been answered already. Then the run continues without the command, and a warning says so.
   * The result, or the thread's state, says which question is open.
   */
  command?: object;
  /** What to begin with if there is nothing to resume, or if the run has to begin anew and its own input is not wanted or not readable. */
  input?: Parameters<G["invoke"]>[0];
};

/**
 * Runs, resumes and rewinds one graph on its {@link TurnSaver}, and keeps the saver's promises where LangGraph by itself would not: new
 * input never silently discards unfinished work, a thread that runs elsewhere is not run twice, a graph that changed does not build on
 * what another version of it did.
 */
export class GraphRunner<G extends RunnableGraph> {
  readonly graph: G;
  readonly saver: TurnSaver;
  readonly #pregel: PregelLike;
  readonly #options: CheckedRunnerOptions;
  /** Streams that nobody has begun to read, or read to the end: their threads are free when nobody can any more. */
  readonly #unread = new FinalizationRegistry<() => Promise<void>>((release) => void release());

  /**
   * Attaches the graph's saver to it.
   *
   * @throws {TurnsError} INVALID_GRAPH unless the graph was compiled with a TurnSaver, INVALID_OPTION, also for a node that the graph hasn't
   */
  constructor(graph: G, options: GraphRunnerOptions = {}) {
    this.#options = checkedRunnerOptions(options);
    this.#pregel = pregelOf(graph);
    this.saver = saverOf(this.#pregel);
    refuseUnknownNodes(this.#pregel, Object.keys(this.#options.nodes));
    this.graph = this.saver.attach(graph, attachOptionsOf(this.#options));
  }

  /** The saver's events, those of this runner among them: `drift`. */
  get events(): SaverEmitter {
    return this.saver.events;
  }

  /** {@link TurnSaver.effects} */
  get effects(): Effects {
    return this.saver.effects;
  }

  /**
   * Runs the graph on a thread, to its end or to an interrupt.
   *
   * @param input new input, a Command, or null to go on as {@link resume} does
   * @throws {TurnsError} THREAD_RUNNING, UNFINISHED_WORK, REWIND_UNFINISHED, INVALID_CONFIG, and as {@link resume}; VALIDATION_FAILED
   *   from a gate; and what the graph throws
   */
  async invoke(input: Parameters<G["invoke"]>[0], options: RunOptions<G>): Promise<Result<G>> {
    return this.#alone(options, async () => this.#invoked(await this.#admitted(input, options), options));
  }

  /**
   * {@link invoke} as LangGraph's stream; every stream mode passes through. The chunks have the type that the graph's own `stream`
   * gives for the mode. After a rollback the stream goes on with the chunks of the new attempt; those of the failed one were given already.
   *
   * @throws as invoke
   */
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- what a chunk is depends on the stream modes
  async stream(input: Parameters<G["stream"]>[0], options: RunOptions<G>): Promise<AsyncIterable<any>> {
    const release = await this.#taken(options);
    try {
      const start = await this.#admitted(input, options);
      const first = (await this.graph.stream(
        start.input,
        configOf(options, start, this.#options.graphId),
      )) as AsyncIterable<unknown>;
      const chunks = thenRelease(this.#streamed(first, options), release);
      this.#unread.register(chunks, release);
      return chunks;
    } catch (error) {
      await release();
      throw error;
    }
  }

  /**
   * Goes on where the thread stopped: after a crash, an error, a repair, or with a `command` after an interrupt. Node tasks that
   * durably ended do not run again; a thread that is finished gives its result. If nodes that had ended changed since, or the thread
   * cannot be read, the run begins anew or is refused, as the options `drift` and `onCorrupted` say (S4.2, S4.3).
   *
   * @throws {TurnsError} NOTHING_TO_RESUME if the thread has no checkpoint and no `input` is given; GRAPH_CHANGED, WRONG_GRAPH,
   *   SCHEMA_TOO_NEW, CHECKPOINT_CORRUPTED; THREAD_RUNNING, REWIND_UNFINISHED, INVALID_CONFIG; EFFECT_IN_DOUBT from an effect,
   *   and if a run would begin anew with effects in doubt; and what the graph throws
   */
  async resume(options: ResumeOptions<G>): Promise<Result<G>> {
    checkedCall(options, "resume");
    const { command, input, ...run } = options as ResumeOptions<G> & { input?: unknown };
    const given = run as unknown as RunOptions<G>;
    return this.#alone(given, async () => this.#invoked(await this.#resumed(command ?? null, given, input), given));
  }

  /**
   * How a thread stands: which nodes of its last run ended, failed or were at work, whether it can be resumed, and why not (S4.1).
   * Nothing is changed.
   */
  async status(threadId: string): Promise<ThreadStatus> {
    checkThread(threadId, "status");
    return statusOf(this.#assessed({ threadId } as RunOptions<G>), threadId);
  }

  /** {@link TurnSaver.rewind}, with the runner's undos. @throws as there */
  async rewind(request: RewindRequest): Promise<RewindReport> {
    return this.#shown(await this.saver.rewind(request, this.#options.undos));
  }

  /** {@link TurnSaver.finishRewind}, with the runner's undos. @throws as there */
  async finishRewind(request: FinishRequest): Promise<RewindReport | undefined> {
    const report = await this.saver.finishRewind(request, this.#options.undos);
    return report && this.#shown(report);
  }

  /** {@link TurnSaver.takeBackRewind}, and brings the thread's CHECKPOINT.md up to date. @throws as there */
  async takeBackRewind(rewindId: string, options: { despiteUndone?: boolean } = {}): Promise<RewindCounts> {
    let threadId: string | undefined;
    const hear = (report: TakeBackReport): void => {
      if (report.rewindId === rewindId) threadId = report.threadId;
    };
    this.events.on("rewind_taken_back", hear);
    try {
      return await this.saver.takeBackRewind(rewindId, options);
    } finally {
      this.events.off("rewind_taken_back", hear);
      if (threadId !== undefined) await this.#refreshFile(threadId, "after a rewind was taken back");
    }
  }

  /** What a rewind to the end of a task would undo, and what it could not, newest first (S3.5). @throws as {@link TurnSaver.compensationReport} */
  async compensationReport(threadId: string, toTask: string): Promise<CompensationReport> {
    return this.saver.compensationReport(threadId, toTask, this.#options.undos);
  }

  /** {@link TurnSaver.drain}: ends the runs of all graphs on the saver at their node boundaries, and closes it. @throws as there */
  async drain(options: DrainOptions = {}): Promise<DrainReport> {
    return this.saver.drain(options);
  }

  /** {@link TurnSaver.inFlight} */
  async inFlight(threadId: string): Promise<Turn[]> {
    return this.saver.inFlight(threadId);
  }

  /** Nobody else runs the thread meanwhile. @throws {TurnsError} THREAD_RUNNING */
  async #alone(options: RunOptions<G>, work: () => Promise<unknown>): Promise<Result<G>> {
    const release = await this.#taken(options);
    try {
      return (await work()) as Result<G>;
    } finally {
      await release();
    }
  }

  /** @returns what gives the thread back, and brings its CHECKPOINT.md to an end */
  async #taken(options: RunOptions<G>): Promise<() => Promise<void>> {
    const threadId = checkedCall(options, "a run");
    const release = await this.saver.reserve(threadId);
    if (this.#options.checkpointFile === undefined) return release;
    const written = this.saver.keepOpen();
    try {
      const path = this.#fileOf(threadId);
      const follower = CheckpointFile.follow(this.saver, threadId, path);
      return async () => {
        await release();
        await follower.close();
        written();
      };
    } catch (error) {
      written();
      await release();
      throw error;
    }
  }

  #fileOf(threadId: string): string {
    const { checkpointFile = "" } = this.#options;
    return typeof checkpointFile === "string" ? checkpointFile : checkpointFile(threadId);
  }

  async #shown(report: RewindReport): Promise<RewindReport> {
    if (!report.dryRun) await this.#refreshFile(report.threadId, "after a rewind");
    return report;
  }

  /** What was done to the thread is done, whether or not its file can be written. */
  async #refreshFile(threadId: string, when: string): Promise<void> {
    if (this.#options.checkpointFile === undefined) return;
    try {
      await new CheckpointFile(this.#fileOf(threadId)).refresh(this.saver, threadId);
    } catch (error) {
      this.saver.logger.warn({ threadId, error: String(error) }, `CHECKPOINT.md could not be written ${when}`);
    }
  }

  async #invoked(start: Start, options: RunOptions<G>): Promise<unknown> {
    for (let at = start; ;) {
      try {
        return await this.graph.invoke(at.input, configOf(options, at, this.#options.graphId));
      } catch (error) {
        if (!(await this.#rolledBack(error))) throw error;
        at = { input: null, checkpointId: undefined };
      }
    }
  }

  async *#streamed(first: AsyncIterable<unknown>, options: RunOptions<G>): AsyncGenerator<unknown> {
    for (let chunks = first; ;) {
      try {
        yield* chunks;
        return;
      } catch (error) {
        if (!(await this.#rolledBack(error))) throw error;
        const again = configOf(options, { input: null, checkpointId: undefined }, this.#options.graphId);
        chunks = (await this.graph.stream(null, again)) as AsyncIterable<unknown>;
      }
    }
  }

  async #rolledBack(error: unknown): Promise<boolean> {
    const asked = rollbackAsked(error);
    return asked !== undefined && rollBack(this.saver, this.#options.undos, asked);
  }

  /** New input is refused while something on the thread is unfinished; a resume or a time travel is not. */
  async #admitted(input: unknown, options: RunOptions<G>): Promise<Start> {
    const { threadId } = options;
    const policy = options.onUnfinished ?? this.#options.onUnfinished;
    const isTimeTravel = options.configurable?.["checkpoint_id"] !== undefined;
    if (isResume(input) && !isTimeTravel) return this.#resumed(input, options, undefined);
    await this.#refuseUnfinishedRewind(threadId);
    const start = { input, checkpointId: undefined };
    if (isTimeTravel || policy === "abandon") return start;
    let unfinished = await unfinishedOf(this.saver, this.#pregel, threadId);
    if (policy === "finish" && unfinished?.waits === false) {
      // All but what names the new input's own task.
      const again = { ...options, taskId: undefined, configurable: { ...options.configurable, task_id: undefined } };
      await this.#invoked(await this.#resumed(null, again, undefined), again);
      unfinished = await unfinishedOf(this.saver, this.#pregel, threadId);
    }
    if (unfinished !== undefined) throw unfinishedWork(threadId, unfinished);
    return start;
  }

  async #resumed(input: unknown, options: RunOptions<G>, instead: unknown): Promise<Start> {
    const { threadId } = options;
    await this.#refuseUnfinishedRewind(threadId);
    const found = await assess(this.#assessed(options), threadId);
    const { obstacle } = found;
    if (obstacle === undefined) return this.#goesOn(threadId, input, found);
    if (obstacle.code === "NOTHING_TO_RESUME") {
      if (instead === undefined || instead === null) throw nothingToResume(threadId);
      return { input: instead, checkpointId: undefined };
    }
    const policy = this.#policyFor(obstacle, options);
    if (obstacle.code === "GRAPH_CHANGED") {
      const { done } = await repeatedBy(this.saver, threadId, found.run);
      this.events.tell("drift", { threadId, changes: found.drift, report: found.difference, policy, effects: done });
    }
    if (policy === "refuse") throw obstacle;
    if (policy === "ignore") {
      const told = { threadId, changes: found.drift };
      this.saver.logger.warn(told, "the graph changed since its completed nodes ran; the run goes on with what they did");
      return this.#goesOn(threadId, input, found);
    }
    return this.#begunAnew(threadId, found, instead);
  }

  /** An answer to a question that was answered before a crash is left out: LangGraph would give it to the next question. */
  async #goesOn(threadId: string, input: unknown, { run }: Assessment): Promise<Start> {
    await this.#warnOfRepeats(threadId);
    if (!repeats(input, run?.answered ?? [])) return { input, checkpointId: undefined };
    const why =
      "the question on record was answered before the run stopped, so the answer given now is not used: the run continues without it. " +
      "Look which question is open, and answer that one";
    this.saver.logger.warn({ threadId }, why);
    return { input: null, checkpointId: undefined };
  }

  #policyFor(obstacle: TurnsError, options: RunOptions<G>): "restart" | "refuse" | "ignore" {
    if (obstacle.code === "GRAPH_CHANGED") return options.drift ?? this.#options.drift;
    return isUnreadable(obstacle) ? this.#options.onCorrupted : "refuse";
  }

  async #begunAnew(threadId: string, found: Assessment, instead: unknown): Promise<Start> {
    const obstacle = found.obstacle as TurnsError;
    const { done, open } = await repeatedBy(this.saver, threadId, found.run);
    if (open.length > 0) throw restartInDoubt(threadId, open, obstacle);
    const start = await restarted({ saver: this.saver, graph: this.#pregel }, threadId, found.run?.inputId, instead);
    if (start === undefined) throw obstacle;
    this.saver.logger.warn(
      { threadId, reason: obstacle.code, changes: found.drift, from: start.checkpointId, effects: done },
      `the run begins anew as a new branch of the thread's history, and what its nodes did may happen again: ${obstacle.message}${inWords(done)}`,
    );
    return start;
  }

  async #refuseUnfinishedRewind(threadId: string): Promise<void> {
    const rewind = await this.saver.unfinishedRewind(threadId);
    if (rewind !== undefined) throw unfinishedRewind(rewind, `a run of thread ${describe(threadId)}`);
  }

  async #warnOfRepeats(threadId: string): Promise<void> {
    for (const turn of await this.saver.inFlight(threadId)) {
      if (ofNode(this.#options.nodes, nodePathOf(turn.nodeNs))?.idempotent === true) continue;
      this.saver.logger.warn(
        { threadId, node: turn.nodeName, nodeTaskId: turn.nodeTaskId, attempt: turn.attempt, since: turn.createdAt },
        `node ${JSON.stringify(turn.nodeName)} was at work when the run stopped and runs again; declare it idempotent if that is harmless`,
      );
    }
  }

  #assessed({ graphId }: RunOptions<G>): Parameters<typeof assess>[0] {
    return { saver: this.saver, graph: this.#pregel, graphId: graphId ?? this.#options.graphId };
  }
}

function saverOf(pregel: PregelLike): TurnSaver {
  if (pregel.checkpointer instanceof TurnSaver) return pregel.checkpointer;
  throw new TurnsError("INVALID_GRAPH", {
    what: "the graph of a GraphRunner",
    expected: "a graph compiled with a TurnSaver, compile({ checkpointer: saver })",
    found: `the checkpointer ${describe(pregel.checkpointer)}`,
    remedy: "Compile the graph with TurnSaver.fromPath(…).",
  });
}

/** The thread is free again when the stream has been read to its end, or broken off and its run has ended in the background. */
async function* thenRelease<T>(chunks: AsyncIterable<T>, release: () => Promise<void>): AsyncGenerator<T> {
  try {
    yield* chunks;
  } finally {
    await release();
  }
}

function configOf(options: RunOptions, start: Start, ownGraphId: string | undefined): Record<string, unknown> {
  const {
    threadId,
    taskId,
    graphId,
    onUnfinished: _,
    drift: __,
    configurable,
    ...config
  } = options as RunOptions & Record<string, unknown>;
  const graph = graphId ?? ownGraphId;
  const names = { ...(taskId === undefined ? {} : { task_id: taskId }), ...(graph === undefined ? {} : { graph_id: graph }) };
  const from = start.checkpointId === undefined ? {} : { checkpoint_id: start.checkpointId };
  return { ...config, configurable: { ...configurable, ...names, ...from, thread_id: threadId } };
}
