import type { Runnable } from "@langchain/core/runnables";
import type { StreamEvent } from "@langchain/core/tracers/log_stream";
import type { IterableReadableStream } from "@langchain/core/utils/stream";
import type { StreamMode } from "@langchain/langgraph";
import { showAs } from "./inspect";
import { internalsOf } from "./internals";
import type { DrainOptions, DrainReport } from "./drain";
import { describe, TurnsError } from "./errors";
import type { Effects } from "./effects/effects";
import {
  type CompensationReport,
  type FinishRequest,
  type RewindReport,
  type RewindRequest,
  type TakeBackReport,
  unfinishedRewind,
} from "./rewind/plan";
import { openQuestions, resumption } from "./runner/answers";
import { isAtBreakpoint } from "./runner/breakpoints";
import { answerAt, earlierCheckpoint } from "./runner/past-answers";
import { changedSinceAsked, refuseOtherQuestions } from "./runner/changed-questions";
import { checkedCall, checkThread, configOf, type ResumeOptions, type RunCall, type RunOptions, stoppedBy } from "./runner/call";
import type { GraphInput, Result, RunnableGraph, StreamChunk } from "./runner/graph-types";
import {
  attachOptionsOf,
  attachShared,
  type CheckedRunnerOptions,
  checkedRunnerOptions,
  type GraphRunnerOptions,
  refuseUnknownNodes,
} from "./runner/options";
import { assess, type Assessment, nothingToResume } from "./runner/assess";
import { checkedUndos } from "./rewind/undos";
import {
  decided,
  type Policies,
  repeatsInWords,
  restarted,
  obstacleInWords,
  rollBack,
  rollbackAsked,
  type Start,
} from "./runner/restart";
import type { PlannedRecovery, RecoveriesOptions, RecoverOptions, RecoverParts, RecoverReport } from "./runner/recover";
import { warnOfRepeats } from "./runner/repeats";
import { statusOf, type StatusParts } from "./runner/status";
import { readable } from "./runner/streams";
import { settledBy, type ThreadStatus } from "./runner/thread-status";
import {
  commandBesideQuestion,
  effectsOfRun,
  type EffectsOfRun,
  isAnswer,
  isCommand,
  isResume,
  unfinishedOf,
  unfinishedWork,
} from "./runner/last-run";
import type { BaseTurnSaver } from "./base-saver";
import { isSaver } from "./known-savers";
import type { RewindCounts } from "./store/store";
import { pregelOf, type PregelLike } from "./turns/attached-graph";
import type { Release, RunEnd } from "./turns/run-registry";
import type { Turn } from "./turns/turn";
import { later } from "./timers";

export type { ResumeOptions, RunOptions } from "./runner/call";
export type { RunnableGraph } from "./runner/graph-types";
export type { GraphRunnerOptions, NodeOptions } from "./runner/options";
export type { ThreadStatus, WaitingInterrupt } from "./runner/thread-status";

/** How often to look whether a node that a run left behind has finished. */
const LOOK_AGAIN_MS = 100;

type EventStreamOptions = Parameters<Runnable["streamEvents"]>[2];

/**
 * Runs, resumes and rewinds one graph on its {@link TurnSaver}.
 *
 * It adds guarantees that LangGraph alone doesn't give. New input never silently discards unfinished work. A thread that another
 * process is running isn't run twice. A changed graph doesn't silently build on results of its old code.
 */
export class GraphRunner<G extends RunnableGraph> {
  readonly graph: G;
  readonly saver: BaseTurnSaver;
  readonly #pregel: PregelLike;
  readonly #options: CheckedRunnerOptions;

  static {
    showAs(this.prototype, "GraphRunner", (runner) => {
      const nodes = Object.keys(runner.#pregel.nodes).filter((name) => name !== "__start__");
      return { graphId: runner.#options.graphId, nodes, saver: runner.saver };
    });
  }

  /**
   * Creates a runner and attaches the graph's saver to the graph.
   *
   * @throws {TurnsError} INVALID_GRAPH unless the graph was compiled with a TurnSaver; INVALID_OPTION, also if an option names a
   *   node that the graph doesn't have, or if a runner of this graph has other gates or labels
   */
  constructor(graph: G, options: GraphRunnerOptions = {}) {
    // First, since a saver in the graph's place makes the graph the options.
    this.#pregel = pregelOf(graph);
    this.#options = checkedRunnerOptions(options);
    this.saver = saverOf(this.#pregel);
    refuseUnknownNodes(this.#pregel, Object.keys(this.#options.nodes));
    this.graph = attachShared(this.#pregel, attachOptionsOf(this.#options), (settings) => this.saver.attach(graph, settings));
  }

  /** The saver's events, including this runner's `drift`. */
  get events(): BaseTurnSaver["events"] {
    return this.saver.events;
  }

  /** The journal of side effects: {@link TurnSaver.effects}. */
  get effects(): Effects {
    return this.saver.effects;
  }

  /**
   * Runs the graph on a thread until it finishes or asks a person.
   *
   * @param input new input, a Command, or null to continue as {@link resume} does
   * @param options the thread, as `{ threadId }` or as LangGraph's `{ configurable: { thread_id } }`, and any LangGraph config
   * @returns what the graph's own `invoke` returns
   * @throws {TurnsError} THREAD_RUNNING, UNFINISHED_WORK, REWIND_UNFINISHED, INVALID_CONFIG, and as {@link resume};
   *   VALIDATION_FAILED from a gate; and what the graph throws
   */
  async invoke(input: GraphInput<G>, options: RunOptions<G>): Promise<Result<G>> {
    const call = checkedCall(options, "runner.invoke");
    return this.#alone(call, async () => this.#invoked(await this.#admitted(input, call), call));
  }

  /**
   * Runs the graph like {@link invoke} and returns LangGraph's stream. Every stream mode works, and chunks have LangGraph's
   * types.
   *
   * The run goes to its end whether or not you read it, and then its thread is free. To stop it, leave the stream: `break`,
   * `cancel()`, `return()` or your `signal`. Once that has resolved, the thread is free, unless a node ignores the signal.
   *
   * With `null` or an answer as input, it streams what {@link resume} would do. After a rollback, the stream continues with the
   * chunks of the new attempt; chunks of the failed attempt were already delivered. With `onUnfinished: "finish"` you get only
   * the chunks of the new input.
   *
   * @throws as {@link invoke}
   */
  async stream<
    Mode extends StreamMode | StreamMode[] | undefined = undefined,
    Subgraphs extends boolean = false,
    Encoding extends "text/event-stream" | undefined = undefined,
  >(
    input: GraphInput<G>,
    options: RunOptions<G> & { streamMode?: Mode; subgraphs?: Subgraphs; encoding?: Encoding },
  ): Promise<IterableReadableStream<StreamChunk<G, Mode, Subgraphs, Encoding>>> {
    const stop = new AbortController();
    const call = stoppedBy(stop.signal, checkedCall(options, "runner.stream"));
    const release = await this.#taken(call);
    try {
      const run = async (start: Start): Promise<AsyncIterable<unknown>> =>
        (await this.graph.stream(start.input as never, this.#configOf(call, start) as never)) as AsyncIterable<unknown>;
      const first = await run(await this.#admitted(input, call));
      const chunks = readable(this.#streamed(first, call, run, release), stop, "now");
      return chunks as IterableReadableStream<StreamChunk<G, Mode, Subgraphs, Encoding>>;
    } catch (error) {
      await release(endBy(error));
      throw error;
    }
  }

  /**
   * Runs the graph like {@link invoke} and returns LangChain's events (`version: "v2"`). As in LangGraph, the stream is returned
   * at once. The run starts when you begin to read, so a refusal is thrown to the reader. Leave it as you leave a {@link stream}.
   *
   * @throws as {@link invoke}, when the stream is read
   */
  streamEvents(
    input: GraphInput<G>,
    options: RunOptions<G> & { version: "v1" | "v2"; encoding: "text/event-stream" },
    streamOptions?: EventStreamOptions,
  ): IterableReadableStream<Uint8Array>;
  streamEvents(
    input: GraphInput<G>,
    options: RunOptions<G> & { version: "v1" | "v2"; encoding?: undefined },
    streamOptions?: EventStreamOptions,
  ): IterableReadableStream<StreamEvent>;
  streamEvents(
    input: GraphInput<G>,
    options: RunOptions<G> & { version: "v1" | "v2" },
    streamOptions?: EventStreamOptions,
  ): IterableReadableStream<StreamEvent | Uint8Array> {
    const stop = new AbortController();
    const call = stoppedBy(stop.signal, checkedCall(options, "runner.streamEvents"));
    refuseOtherEvents(call.config["version"]);
    const run = (start: Start): AsyncIterable<StreamEvent> =>
      eventSourceOf(this.graph, this.#pregel).streamEvents(start.input, this.#configOf(call, start) as never, streamOptions);
    return readable(this.#events(input, call, run), stop, "when read");
  }

  /** The run starts with the first read of its events. */
  async *#events<T>(input: unknown, call: RunCall, run: (start: Start) => AsyncIterable<T>): AsyncGenerator<T> {
    const release = await this.#taken(call);
    let first: AsyncIterable<T>;
    try {
      const start = await this.#admitted(input, call);
      call.config.signal?.throwIfAborted();
      first = run(start);
    } catch (error) {
      await release(endBy(error));
      throw error;
    }
    yield* this.#streamed(first, call, run, release);
  }

  /**
   * Continues where the thread stopped: after a crash, an error or a repair, or with a `command` after an interrupt.
   *
   * Node tasks that durably completed don't run again. A finished thread returns its result. If completed nodes have changed
   * since, or the thread can't be read, the options `drift` and `onCorrupted` decide: the run starts again or is refused (S4.2,
   * S4.3).
   *
   * @returns what the graph's own `invoke` returns
   * @throws {TurnsError} NOTHING_TO_RESUME if the thread has no checkpoint and you gave no `input`; UNKNOWN_INTERRUPT for an
   *   answer to a question that isn't open; GRAPH_CHANGED, WRONG_GRAPH, SCHEMA_TOO_NEW, CHECKPOINT_CORRUPTED; THREAD_RUNNING,
   *   REWIND_UNFINISHED, INVALID_CONFIG; EFFECT_IN_DOUBT from an effect, or if a run would start again with effects in doubt; and
   *   what the graph throws
   */
  async resume(options: ResumeOptions<G>): Promise<Result<G>> {
    const call = checkedCall(options, "runner.resume");
    const { command, input, ...config } = call.config;
    const run = { ...call, config: { ...config, configurable: call.config.configurable } };
    return this.#alone(run, async () => this.#invoked(await this.#resumed(command ?? null, run, input), run));
  }

  /**
   * Reports the state of a thread without changing it: which nodes of its last run completed, failed or were running, whether it
   * can be resumed, and why not (S4.1).
   */
  async status(threadId: string): Promise<ThreadStatus> {
    checkThread(threadId, "runner.status");
    return statusOf(this.#statusParts({}), threadId);
  }

  /**
   * Resumes every thread of this graph whose process is gone, on any machine (S9.4). Two workers never resume the same thread.
   *
   * It skips threads that wait for a person, are in doubt or being rewound, and threads whose completed nodes this graph has in
   * another version. A thread that fails is tried again by later calls, after growing waits. After some tries that brought it no
   * further, it's given up: `saver.turns.stuck()` lists it. A drain waits for the call. See docs/scaling-out.md.
   *
   * @returns what became of each thread; it doesn't throw what a thread's run throws
   * @throws {TurnsError} INVALID_OPTION; STORE_UNAVAILABLE, STORE_BUSY
   */
  async recover(options: RecoverOptions<G> = {}): Promise<RecoverReport> {
    const { recover } = await import("./runner/recover");
    return recover(this.#recoverParts(), options);
  }

  /** @internal What {@link recover} would do with a thread now. */
  async recoveryOf(threadId: string): Promise<PlannedRecovery> {
    const { recoveryOf } = await import("./runner/recover");
    return recoveryOf(this.#recoverParts(), threadId);
  }

  /**
   * {@link recover} again and again, for a worker: `for await (const report of runner.recoveries()) console.log(String(report))`.
   * Each report says what is new. The loop ends when your `signal` is aborted or the saver drains.
   *
   * @throws {TurnsError} INVALID_OPTION, when the first report is read
   */
  async *recoveries(options: RecoveriesOptions<G> = {}): AsyncGenerator<RecoverReport, void, void> {
    const { recoveries } = await import("./runner/recover");
    yield* recoveries(this.#recoverParts(), options);
  }

  /** {@link TurnSaver.rewind} with the runner's undos. @throws as there */
  async rewind(request: RewindRequest): Promise<RewindReport> {
    return this.#shown(() => this.saver.rewind(request, this.#options.undos));
  }

  /** `saver.rewinds.finish` with the runner's undos. @throws as there */
  async finishRewind(request: FinishRequest): Promise<RewindReport | undefined> {
    return this.#shown(() => this.saver.rewinds.finish(request, this.#options.undos));
  }

  /** `saver.rewinds.takeBack`, which also updates the thread's CHECKPOINT.md. @throws as there */
  async takeBackRewind(rewindId: string, options: { despiteUndone?: boolean } = {}): Promise<RewindCounts> {
    const written = internalsOf(this.saver).keepOpen();
    let threadId: string | undefined;
    const hear = (report: TakeBackReport): void => {
      if (report.rewindId === rewindId) threadId = report.threadId;
    };
    this.events.on("rewind_taken_back", hear);
    try {
      return await this.saver.rewinds.takeBack(rewindId, options);
    } finally {
      this.events.off("rewind_taken_back", hear);
      if (threadId !== undefined) await this.#refreshFile(threadId, "after a rewind was taken back");
      written();
    }
  }

  /**
   * Lists what a rewind to the end of a task would undo, and what it couldn't, newest first (S3.5).
   *
   * @throws as `saver.rewinds.compensationReport`
   */
  async compensationReport(request: Pick<RewindRequest, "threadId" | "toTask">): Promise<CompensationReport> {
    return this.saver.rewinds.compensationReport(request, this.#options.undos);
  }

  /**
   * {@link TurnSaver.drain}: stops the runs of all graphs on the saver at their node boundaries, then closes it.
   *
   * @throws as there
   */
  async drain(options: DrainOptions = {}): Promise<DrainReport> {
    return this.saver.drain(options);
  }

  /** `saver.turns.inFlight`: the turns that a crash interrupted. */
  async inFlight(threadId: string): Promise<Turn[]> {
    return this.saver.turns.inFlight(threadId);
  }

  /** Reserves the thread, so that nobody else runs it meanwhile. @throws {TurnsError} THREAD_RUNNING */
  async #alone(call: RunCall, work: () => Promise<unknown>): Promise<Result<G>> {
    const release = await this.#taken(call);
    let end: RunEnd = "succeeded";
    try {
      return (await work()) as Result<G>;
    } catch (error) {
      end = endBy(error);
      throw error;
    } finally {
      await release(end);
    }
  }

  async #taken(call: RunCall): Promise<Release> {
    return this.#followed(call, await internalsOf(this.saver).reserve(call.threadId));
  }

  /** @returns a function that frees the thread, once LangGraph has stopped its run, and finishes its CHECKPOINT.md */
  async #followed({ threadId }: RunCall, free: Release): Promise<Release> {
    const internals = internalsOf(this.saver);
    const release: Release = async (end) => {
      await internals.leftRunsStopped(threadId);
      await free(end);
    };
    if (this.#options.checkpointFile === undefined) return release;
    const written = internals.keepOpen();
    try {
      const path = this.#fileOf(threadId);
      const { CheckpointFile } = await import("./report/checkpoint-file");
      const follower = CheckpointFile.follow(this.saver, threadId, path);
      return async (end) => {
        await release(end);
        await follower.close();
        void this.#refreshedWhenFree(threadId).finally(written);
      };
    } catch (error) {
      written();
      await release(endBy(error));
      throw error;
    }
  }

  #recoverParts(): RecoverParts {
    return {
      saver: this.saver,
      look: async (threadId, drift) => {
        const parts = this.#statusParts({ drift });
        const found = await assess(parts, threadId);
        const status = await statusOf(parts, threadId, found);
        const atBreakpoint = await isAtBreakpoint({ saver: this.saver, graph: this.#pregel, threadId, config: {}, found });
        return { status, found, atBreakpoint, settledBy: (effect) => settledBy(effect, parts.known) };
      },
      resume: async ({ threadId, drift, config }, claim, failed) => {
        // The runner's own `drift` is for a resume that somebody asked for. What it accepts is no drift.
        const own = typeof this.#options.drift === "object" ? undefined : "refuse";
        const call = checkedCall({ ...config, threadId, drift: drift ?? own }, "runner.recover");
        const free = await internalsOf(this.saver).claim(threadId, claim);
        if (free === undefined) return false;
        const release = await this.#followed(call, free);
        let end: RunEnd = "succeeded";
        try {
          await this.#invoked(await this.#resumed(null, call, undefined), call);
        } catch (error) {
          // eslint-disable-next-line no-useless-assignment -- what counts if `failed` throws
          end = "recorded";
          end = await failed(error);
        } finally {
          await release(end);
        }
        return true;
      },
    };
  }

  #fileOf(threadId: string): string {
    const { checkpointFile = "" } = this.#options;
    return typeof checkpointFile === "string" ? checkpointFile : checkpointFile(threadId);
  }

  /** Rewinds, and updates the thread's CHECKPOINT.md. A drain waits for both. */
  async #shown<R extends RewindReport | undefined>(rewind: () => Promise<R>): Promise<R> {
    const written = internalsOf(this.saver).keepOpen();
    try {
      const report = await rewind();
      if (report?.dryRun === false) await this.#refreshFile(report.threadId, "after a rewind");
      return report;
    } finally {
      written();
    }
  }

  /** A node that ignores the abort of its run may work on. The file says that the thread is running, so it's written again then. */
  async #refreshedWhenFree(threadId: string): Promise<void> {
    let isStale = false;
    // A saver that was closed meanwhile can't say what is so now.
    const isRunning = (): Promise<boolean> => this.saver.turns.isRunning(threadId).catch(() => (isStale = false));
    for (; await isRunning(); isStale = true) await new Promise((resolve) => later(resolve, LOOK_AGAIN_MS).unref());
    if (isStale) await this.#refreshFile(threadId, "after a run");
  }

  /** What has happened has happened, even if the file can't be written. */
  async #refreshFile(threadId: string, when: string): Promise<void> {
    if (this.#options.checkpointFile === undefined) return;
    try {
      const { CheckpointFile } = await import("./report/checkpoint-file");
      await new CheckpointFile(this.#fileOf(threadId)).refresh(this.saver, threadId);
    } catch (error) {
      internalsOf(this.saver).logger.warn({ threadId, error: String(error) }, `CHECKPOINT.md could not be written ${when}`);
    }
  }

  async #invoked(start: Start, call: RunCall): Promise<unknown> {
    for (let at = start; ;) {
      try {
        return await this.graph.invoke(at.input as never, this.#configOf(call, at) as never);
      } catch (error) {
        if (!(await this.#rolledBack(error))) throw error;
        at = { input: null, checkpointId: undefined };
      }
    }
  }

  /** The chunks of a run, and of what follows a rollback. Then the thread is released. */
  async *#streamed<T>(
    first: AsyncIterable<T>,
    { config: { signal } }: RunCall,
    run: (start: Start) => AsyncIterable<T> | Promise<AsyncIterable<T>>,
    release: Release,
  ): AsyncGenerator<T> {
    // Also if the reader leaves.
    let end: RunEnd = "failed";
    try {
      for (let chunks = first; ;) {
        try {
          yield* chunks;
          end = "succeeded";
          return;
        } catch (error) {
          if (!(await this.#rolledBack(error))) throw error;
          signal?.throwIfAborted();
          chunks = await run({ input: null, checkpointId: undefined });
        }
      }
    } catch (error) {
      end = endBy(error);
      throw error;
    } finally {
      await release(end);
    }
  }

  #configOf(call: RunCall, start: Start): object {
    return configOf(call, start, this.#options.graphId);
  }

  async #rolledBack(error: unknown): Promise<boolean> {
    const asked = rollbackAsked(error);
    return asked !== undefined && rollBack(this.saver, this.#options.undos, asked);
  }

  /** Refuses new input while the thread has unfinished work. A resume or a time travel is admitted. */
  async #admitted(input: unknown, call: RunCall): Promise<Start> {
    const { threadId } = call;
    const policy = call.onUnfinished ?? this.#options.onUnfinished;
    const isTimeTravel = call.config.configurable["checkpoint_id"] !== undefined;
    if (isResume(input) && (!isTimeTravel || isAnswer(input))) return this.#resumed(input, call, undefined);
    await this.#refuseUnfinishedRewind(threadId);
    const start = { input, checkpointId: undefined };
    if (isTimeTravel || policy === "abandon") return start;
    const isFinished = await this.#refuseWork(call, input, policy === "finish");
    if (isFinished) return start;
    // Everything except the new input's own task id.
    const again = { ...call, taskId: undefined };
    await this.#invoked(await this.#resumed(null, again, undefined), again);
    await this.#refuseWork(call, input, false);
    return start;
  }

  /**
   * @returns whether the thread is finished; false if its work can be finished without a person, and that is admitted
   * @throws {TurnsError} UNFINISHED_WORK
   */
  async #refuseWork(call: RunCall, input: unknown, admitsWork: boolean): Promise<boolean> {
    const { saver } = this;
    const { threadId, config } = call;
    const look = (): Promise<Assessment> => assess(this.#assessed(call), threadId);
    const unfinished = await unfinishedOf(saver, this.#pregel, threadId).catch(async (error: unknown) => {
      throw (await look()).obstacle ?? error;
    });
    if (unfinished === undefined) return true;
    const found = await look();
    const { questions = [] } = unfinished;
    const open = found.obstacle === undefined ? openQuestions(found) : questions;
    // Nodes that have their answers continue without a person.
    const someHaveAnswers = open.length < questions.length;
    if (unfinished.waits && (open.length > 0 || !someHaveAnswers)) {
      if (someHaveAnswers && admitsWork) return false;
      const refusal = isCommand(input) ? commandBesideQuestion : unfinishedWork;
      throw refusal(threadId, { ...unfinished, questions: open }, found.obstacle !== undefined);
    }
    const stands = await isAtBreakpoint({ saver, graph: this.#pregel, threadId, config, found });
    if (stands || !admitsWork) throw unfinishedWork(threadId, { ...unfinished, waits: false }, false, stands);
    return false;
  }

  async #resumed(input: unknown, call: RunCall, instead: unknown): Promise<Start> {
    const { threadId } = call;
    await this.#refuseUnfinishedRewind(threadId);
    if (isAnswer(input)) {
      const earlier = await earlierCheckpoint(this.saver, threadId, call.config.configurable);
      if (earlier !== undefined) return { input: await answerAt(this.saver, threadId, earlier, input), checkpointId: undefined };
    }
    const found = await assess(this.#assessed(call), threadId);
    const { obstacle } = found;
    if (obstacle === undefined) {
      if (found.accepted.length > 0) await this.#tellAccepted(threadId, found);
      return this.#goesOn(call, input, found);
    }
    if (obstacle.code === "NOTHING_TO_RESUME") {
      if (instead === undefined || instead === null) throw obstacle;
      return { input: instead, checkpointId: undefined, taskId: found.run?.taskId };
    }
    const { policy, effects, refusal } = await decided(
      this.saver,
      threadId,
      { ...found, obstacle },
      this.#policies(call),
      instead,
    );
    if (obstacle.code === "GRAPH_CHANGED")
      this.events.emit("drift", { threadId, changes: found.drift, report: found.difference, policy, effects: effects.done });
    if (refusal !== undefined) throw refusal;
    if (policy === "continue") {
      const told = { threadId, changes: found.drift };
      internalsOf(this.saver).logger.warn(told, `${continuedDespite(threadId, found.drift)}.`);
      return this.#goesOn(call, input, found);
    }
    return this.#begunAnew(threadId, found, effects.done, instead);
  }

  async #goesOn(call: RunCall, given: unknown, known: Assessment): Promise<Start> {
    const { saver } = this;
    const { threadId, config } = call;
    const found = await this.#askedAnew(call, given, known);
    const { input, isRepeated } = await resumption({ saver, graph: this.#pregel, threadId, input: given, found, config });
    await warnOfRepeats(saver, this.#pregel, threadId, this.#options.nodes);
    if (isRepeated) {
      const why =
        "the question on record was answered before the run stopped, so the answer given now is not used: the run continues with the " +
        "answer on record. Look which question is open, and answer that one";
      internalsOf(saver).logger.warn({ threadId }, why);
    }
    return { input, checkpointId: undefined, isAtNewest: isAnswer(given) };
  }

  /** Before an answer is given to nodes that changed since they asked, they ask again, unless `drift` says to continue. */
  async #askedAnew(call: RunCall, given: unknown, found: Assessment): Promise<Assessment> {
    const { threadId } = call;
    const drift = call.drift ?? this.#options.drift;
    const isAccepted = (path: string): boolean =>
      typeof drift === "object" && [path, path.slice(path.lastIndexOf("|") + 1)].some((name) => drift.accept.includes(name));
    const nodes = (await changedSinceAsked(this.saver, this.#pregel, found)).filter((path) => !isAccepted(path));
    if (nodes.length === 0) return found;
    if (!isAnswer(given) || drift === "continue") {
      const those = nodes.map((path) => JSON.stringify(path)).join(", ");
      const what = "they run again, and the answers that they have go to their questions in the order of the new code";
      internalsOf(this.saver).logger.warn({ threadId, nodes }, `Nodes that wait for an answer have changed (${those}): ${what}`);
      return found;
    }
    await this.#invoked(await this.#resumed(null, call, undefined), call);
    const now = await assess(this.#assessed(call), threadId);
    refuseOtherQuestions(threadId, given, found, now);
    return now;
  }

  async #tellAccepted(threadId: string, { accepted: changes, difference: report, run }: Assessment): Promise<void> {
    const { done: effects } = await effectsOfRun(this.saver, threadId, run);
    this.events.emit("drift", { threadId, changes, report, policy: "continue", effects });
    internalsOf(this.saver).logger.warn(
      { threadId, changes },
      `${continuedDespite(threadId, changes)}. drift.accept names ${changes.length === 1 ? "it" : "them"}.`,
    );
  }

  async #begunAnew(threadId: string, found: Assessment, done: EffectsOfRun["done"], instead: unknown): Promise<Start> {
    const start = await restarted({ saver: this.saver, graph: this.#pregel }, threadId, found.run, instead);
    if (start === undefined) throw found.obstacle ?? nothingToResume(threadId);
    internalsOf(this.saver).logger.warn(
      { threadId, reason: found.obstacle?.code, changes: found.drift, from: start.checkpointId, effects: done },
      `Thread ${describe(threadId)}: the run starts again as a new branch of its history, because ${obstacleInWords(found)}.${repeatsInWords(done)}`,
    );
    // Otherwise the new branch would be a task of its own, and a rewind to the run's task would delete it.
    return { ...start, taskId: found.run?.taskId };
  }

  async #refuseUnfinishedRewind(threadId: string): Promise<void> {
    const rewind = await internalsOf(this.saver).store.unfinishedRewind(threadId);
    if (rewind !== undefined) throw unfinishedRewind(rewind, `a run of thread ${describe(threadId)}`);
  }

  #policies({ drift = this.#options.drift }: Pick<RunCall, "drift">): Policies {
    return { drift, onCorrupted: this.#options.onCorrupted };
  }

  #statusParts(call: Pick<RunCall, "drift">): StatusParts {
    return { ...this.#assessed(call), policies: this.#policies(call), known: checkedUndos(this.#options.undos) };
  }

  #assessed(call: Partial<Pick<RunCall, "graphId" | "drift">>): Parameters<typeof assess>[0] {
    const drift = call.drift ?? this.#options.drift;
    const accept = typeof drift === "object" ? drift.accept : [];
    const graphId = call.graphId ?? this.#options.graphId;
    return { saver: this.saver, graph: this.#pregel, graphId, accept, isAcceptOfCall: call.drift !== undefined };
  }
}

/** What becomes of a run that threw: one that the end of its process stopped is for recovery. */
function endBy(error: unknown): RunEnd {
  return TurnsError.is(error, "STORE_DRAINING") || TurnsError.is(error, "STORE_CLOSED") ? "left" : "failed";
}

function saverOf(pregel: PregelLike): BaseTurnSaver {
  if (isSaver(pregel.checkpointer)) return pregel.checkpointer as BaseTurnSaver;
  throw new TurnsError("INVALID_GRAPH", {
    problem: `The graph of a GraphRunner must be compiled with a TurnSaver; its checkpointer is ${describe(pregel.checkpointer)}.`,
    remedy: "Compile it with builder.compile({ checkpointer: TurnSaver.fromPath(path) }).",
  });
}

interface EventSource {
  streamEvents(input: unknown, config: never, streamOptions: EventStreamOptions): AsyncIterable<StreamEvent>;
}

/** An agent that carries its graph may have no `streamEvents` of its own. */
function eventSourceOf(graph: object, pregel: PregelLike): EventSource {
  return ("streamEvents" in graph ? graph : pregel) as EventSource;
}

function refuseOtherEvents(version: unknown): void {
  if (version === "v1" || version === "v2") return;
  throw new TurnsError("INVALID_OPTION", {
    problem: `Option "version" of runner.streamEvents is ${describe(version)}, and the runner knows "v2" and "v1".`,
    remedy: 'Pass version: "v2", or call runner.stream with subgraphs: true and all the modes you need.',
    data: { option: "version" },
  });
}

const continuedDespite = (threadId: string, changes: readonly string[]): string =>
  `Thread ${describe(threadId)}: the run continues with what its completed nodes did, although the graph changed: ${changes.join("; ")}`;
