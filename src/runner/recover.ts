import { z } from "zod";
import { describe, TurnsError } from "../errors";
import { internalsOf, type Internals } from "../internals";
import { checkedOptions, signalSchema } from "../options";
import type { BaseTurnSaver } from "../base-saver";
import type { RecoveryClaim, RecoveryRow } from "../store/store";
import { uptime } from "../system";
import { isAlive, isLost } from "../turns/process-identity";
import type { RunEnd } from "../turns/run-registry";
import { type Failure, failureOf, failureText, toStuck } from "../turns/stuck";
import type { Assessment } from "./assess";
import type { LangGraphConfig, RunnableGraph } from "./graph-types";
import { drift, type GraphRunnerOptions } from "./options";
import { isEmpty, newReport, type RecoverReport, type SkippedThread } from "./recover-report";
import type { SettledBy, ThreadStatus } from "./thread-status";
import type { Effect } from "../effects/types";
import { later, unlessAborted } from "../timers";

export type { FailedRecovery, RecoverReport, SkippedThread } from "./recover-report";

/** The threads that {@link recover} would look at now, by id. */
export async function lostThreads(saver: BaseTurnSaver, { includeStuck }: { includeStuck: boolean }): Promise<string[]> {
  return [...(await suspectsOf(internalsOf(saver), includeStuck))].sort();
}

/** Reads only the runs on record and the tries, not the threads. */
async function suspectsOf(internals: Internals, includesStuck: boolean): Promise<Set<string>> {
  const { store } = internals;
  const found = new Set<string>();
  for (let after: string | undefined = ""; after !== undefined;) {
    const runs = await store.allRuns(after, PAGE);
    for (const run of runs) if (isLost(run)) found.add(run.threadId);
    after = runs.length < PAGE ? undefined : runs.at(-1)?.runId;
  }
  for (const givenUp of includesStuck ? [false, true] : [false]) {
    for (let after: string | undefined = ""; after !== undefined;) {
      const rows = await store.listRecoveries({ after, limit: PAGE, givenUp, isLenient: true }, internals.now());
      for (const row of rows) if (isDue(row)) found.add(row.threadId);
      after = rows.length < PAGE ? undefined : rows.at(-1)?.threadId;
    }
  }
  return found;
}

/** Options of `runner.recover`. All are optional. */
export interface RecoverOptions<G extends RunnableGraph = RunnableGraph> {
  /** How many threads run at once. Default 4. */
  concurrency?: number;
  /** After how many tries that brought it no further a thread is given up. Default 5. */
  tries?: number;
  /** How long to wait after a thread's first failed try, in milliseconds; then three times as long, up to ten minutes. Default 10,000. */
  waitMs?: number;
  /** Also tries the threads of `saver.turns.stuck()` again. Default false. */
  includeStuck?: boolean;
  /** What happens to threads whose completed nodes changed. Default: they are left to a worker that has their version. */
  drift?: GraphRunnerOptions["drift"];
  /** LangGraph's config for the resumed runs, such as `context` or `recursionLimit`: one for all, or a function of the thread. */
  config?:
    | RecoverConfig<G>
    | ((thread: { threadId: string; taskId: string | undefined }) => RecoverConfig<G> | Promise<RecoverConfig<G>>);
  /** Stops looking for more threads. Those that are running run to their end; `drain` stops them at their next node. */
  signal?: AbortSignal;
}

type RecoverConfig<G extends RunnableGraph> = Omit<LangGraphConfig<G>, "signal">;

/** Options of `runner.recoveries`. */
export interface RecoveriesOptions<G extends RunnableGraph = RunnableGraph> extends RecoverOptions<G> {
  /** How long to wait between two looks, in milliseconds, on average. Default 5,000. */
  everyMs?: number;
}

/** What recovery needs of its runner. */
export interface RecoverParts {
  saver: BaseTurnSaver;
  /** The thread's state, with what a resume would do. */
  look(threadId: string, drift: Drift): Promise<Look>;
  /**
   * Resumes a thread, if it still is as it was found.
   * @param failed is called with the run's error while the thread is still reserved
   * @returns whether it was
   */
  resume(
    run: { threadId: string; drift: Drift; config: object },
    claim: RecoveryClaim,
    failed: (error: unknown) => Promise<RunEnd>,
  ): Promise<boolean>;
}

export interface Look {
  status: ThreadStatus;
  found: Assessment;
  settledBy: (effect: Effect) => SettledBy;
  /** Whether it stopped where its graph asks a person to look at it. */
  atBreakpoint: boolean;
}

type Drift = GraphRunnerOptions["drift"] | undefined;

const LOOK_FOR_STOP_MS = 100;
const PAGE = 500;
const WAIT_MAX_MS = 600_000;
/** How long a thread that was skipped isn't looked at again, from the first time to the last. */
const LOOK_AGAIN_MS = { first: 5_000, most: 60_000 };
/** The clock may have been set back by this much before a recorded try counts as one of the future. */
const CLOCK_SET_BACK_MS = 1_000;
type OfThread = Extract<RecoverOptions["config"], (...args: never[]) => unknown>;
const isOfThread = (config: Options["config"]): config is OfThread => typeof config === "function";
/** Somebody else has the thread, or it is gone. */
const NOT_OURS: readonly string[] = ["LEASE_LOST", "THREAD_RUNNING", "THREAD_DELETED", "THREAD_NOT_FOUND"];
/** Nothing is wrong with the thread. Another worker can resume it, or this one later. */
const FOR_OTHERS: readonly string[] = ["GRAPH_CHANGED", "WRONG_GRAPH", "SCHEMA_TOO_NEW", "REWIND_UNFINISHED"];
const STOPPING: readonly string[] = ["STORE_DRAINING", "STORE_CLOSED"];
/** The database can't be reached now. */
const STORE_AWAY: readonly string[] = ["STORE_BUSY", "STORE_UNAVAILABLE"];
/** The trouble of a look is the database's, and may pass: a lock, a server that is away, a full disk, a statement that it cancelled. */
const STORE_TROUBLE: readonly string[] = [...STORE_AWAY, "STORE_FAILED"];

const fields = () => ({
  concurrency: z.number().int().min(1).max(10_000).default(4),
  tries: z.number().int().min(1).max(1_000).default(5),
  waitMs: z.number().int().min(0).max(WAIT_MAX_MS).default(10_000),
  includeStuck: z.boolean().default(false),
  drift: drift().optional(),
  config: z
    .custom<RecoverOptions["config"]>((value) => typeof value === "function" || (typeof value === "object" && value !== null), {
      error: "must be LangGraph's config, or a function that returns it",
    })
    .optional(),
  signal: signalSchema.optional(),
});
const schema = () => z.strictObject(fields());
const loopSchema = () => z.strictObject({ ...fields(), everyMs: z.number().int().min(10).max(86_400_000).default(5_000) });
type Options = z.output<ReturnType<typeof schema>>;

/** @throws {TurnsError} INVALID_OPTION */
export async function recover(parts: RecoverParts, options: object): Promise<RecoverReport> {
  return new Recovery(parts, checkedOptions(schema, options)).once();
}

/**
 * Recovers again and again, until the signal is aborted or the saver drains. A look doesn't wait for the runs of the last one.
 * Trouble of the store is logged, and the next look comes as usual.
 * @throws {TurnsError} INVALID_OPTION, and what says that no later look can succeed: a newer schema, a wrong key, a bug
 */
export async function* recoveries(parts: RecoverParts, options: object): AsyncGenerator<RecoverReport, void, void> {
  const { everyMs, ...each } = checkedOptions(loopSchema, options);
  const recovery = new Recovery(parts, each, new Map());
  const { logger } = internalsOf(parts.saver);
  try {
    while (!recovery.isStopped) {
      try {
        await recovery.look();
      } catch (error) {
        if (!STORE_TROUBLE.includes(codeOf(error))) throw error;
        logger.warn({ error: String(error) }, "recovery couldn't read the database, and tries again");
      }
      recovery.forgetStuck();
      for (let left = everyMs * (0.75 + Math.random() / 2); left > 0 && !recovery.isWanted;) {
        const since = uptime();
        await recovery.pause(left);
        left -= uptime() - since;
        const report = recovery.takeReport();
        if (!isEmpty(report)) yield report;
      }
    }
  } finally {
    await recovery.ended();
  }
  const report = recovery.takeReport();
  if (!isEmpty(report)) yield report;
}

/** A thread as it's found, before anybody has claimed it. */
interface Lost {
  threadId: string;
  runIds: readonly string[];
  row: RecoveryRow | undefined;
  /** Whether the look includes those that were given up. */
  includesStuck: boolean;
}

class Recovery {
  readonly #parts: RecoverParts;
  readonly #options: Options;
  readonly #internals: Internals;
  /** When a skipped thread is looked at again, and why it was skipped. Only a worker that looks often remembers that. */
  readonly #skipped: Map<string, { code: string; at: number; waitMs: number }> | undefined;
  #includesStuck: boolean;
  /** By thread. */
  readonly #running = new Map<string, Promise<void>>();
  /** Threads whose last try died with its process: each may be the cause, so it runs when nothing else does. */
  readonly #suspects = new Set<string>();
  #report = newReport();
  /** What a thread's recovery threw, and not its run. */
  #failure: { error: unknown } | undefined;

  constructor(parts: RecoverParts, options: Options, skipped?: Map<string, { code: string; at: number; waitMs: number }>) {
    this.#parts = parts;
    this.#options = options;
    this.#internals = internalsOf(parts.saver);
    this.#skipped = skipped;
    this.#includesStuck = options.includeStuck;
  }

  get isStopped(): boolean {
    return this.#options.signal?.aborted === true || this.#internals.isStopping();
  }

  /** Whether the next look is due at once: something failed, or the time of the suspects has come. Or there is none. */
  get isWanted(): boolean {
    return this.isStopped || this.#failure !== undefined || (this.#suspects.size > 0 && this.#running.size === 0);
  }

  /** Those that were given up before were tried again once. */
  forgetStuck(): void {
    this.#includesStuck = false;
  }

  /** What is new since it was taken last. */
  takeReport(): RecoverReport {
    const report = this.#report;
    this.#report = newReport();
    return report;
  }

  /** Looks at each thread without a live process once, resumes it if possible, and waits until all have stopped. */
  async once(): Promise<RecoverReport> {
    try {
      await this.look();
    } finally {
      await this.ended();
    }
    await this.#runSuspects();
    this.#throwFailure();
    return this.takeReport();
  }

  /**
   * Looks at each thread without a live process once, and starts to resume it if possible. A drain waits for all that was started.
   * @throws what an earlier thread's recovery threw
   */
  async look(): Promise<void> {
    this.#throwFailure();
    const finished = this.#internals.keepOpen();
    try {
      // Those of the last look.
      if (this.#running.size === 0) await this.#runSuspects();
      if (this.isStopped) return;
      for (const threadId of (await unlessAborted(this.#candidates(), this.#options.signal)) ?? []) {
        while (this.#running.size >= this.#options.concurrency) await Promise.race(this.#running.values());
        if (this.isStopped || this.#failure !== undefined) break;
        if (!this.#running.has(threadId)) this.#start(threadId, this.#includesStuck);
      }
    } catch (error) {
      if (!STOPPING.includes(codeOf(error))) throw error;
    } finally {
      finished();
    }
  }

  /** Resolves when nothing is running. */
  async ended(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running.values());
  }

  /** Ends early when there is something to tell or to do. A drain mustn't have to wait for it. */
  async pause(ms: number): Promise<void> {
    const until = uptime() + ms;
    for (let left = ms; left > 0; left = until - uptime()) {
      if (this.isWanted || !isEmpty(this.#report)) return;
      await new Promise((resolve) => later(resolve, Math.min(left, LOOK_FOR_STOP_MS)));
    }
  }

  #start(threadId: string, includesStuck: boolean): void {
    const finished = this.#internals.keepOpen();
    const one = this.#recover(threadId, includesStuck, true)
      .catch((error: unknown) => void (this.#failure ??= { error }))
      .finally(() => {
        this.#running.delete(threadId);
        finished();
      });
    this.#running.set(threadId, one);
  }

  /** One after the other: should one of them kill this process, it hurts no other. */
  async #runSuspects(): Promise<void> {
    for (const threadId of this.#suspects) {
      this.#suspects.delete(threadId);
      if (this.isStopped || this.#failure !== undefined) continue;
      const finished = this.#internals.keepOpen();
      try {
        await this.#recover(threadId, this.#includesStuck, false);
      } finally {
        finished();
      }
    }
  }

  #throwFailure(): void {
    const failure = this.#failure;
    this.#failure = undefined;
    if (failure !== undefined && !STOPPING.includes(codeOf(failure.error))) throw failure.error;
  }

  /** In random order, so that several workers seldom meet. */
  async #candidates(): Promise<string[]> {
    const found = await suspectsOf(this.#internals, this.#includesStuck);
    for (const threadId of this.#skipped?.keys() ?? []) if (!found.has(threadId)) this.#skipped?.delete(threadId);
    return shuffled([...found]);
  }

  /** @param isAmongOthers a thread whose last try died with its process becomes a suspect */
  async #recover(threadId: string, includesStuck: boolean, isAmongOthers: boolean): Promise<void> {
    const known = this.#skipped?.get(threadId);
    if (known !== undefined && this.#internals.now() < known.at) return;
    let lost: Lost | undefined;
    try {
      lost = await unlessAborted(this.#lost(threadId, includesStuck), this.#options.signal);
      if (lost !== undefined) await this.#recoverLost(lost, isAmongOthers);
    } catch (error) {
      if (!TurnsError.is(error) || STORE_AWAY.includes(error.code) || STOPPING.includes(error.code)) throw error;
      // It moved to another database, and is recovery's there.
      if (error.code === "THREAD_MOVED" && error.data["gone"] === true && lost !== undefined)
        return this.#internals.store.endRecovery(threadId, lost.runIds);
      if (!NOT_OURS.includes(error.code)) this.#skip({ threadId, taskId: undefined, reason: error });
    }
  }

  /** Undefined if somebody has taken care of it since, or if it isn't its time. */
  async #lost(threadId: string, includesStuck: boolean): Promise<Lost | undefined> {
    const { store } = this.#internals;
    const runs = await store.listRuns(threadId);
    if (runs.some((run) => isAlive(run))) return undefined;
    const runIds = runs.filter((run) => isLost(run)).map(({ runId }) => runId);
    const row = await store.recoveryOf(threadId, this.#internals.now());
    const lost = { threadId, runIds, row, includesStuck };
    if (row === undefined) return runIds.length === 0 ? undefined : lost;
    if (row.givenUp) return includesStuck || runIds.length > 0 ? lost : undefined;
    return isDue(row) ? lost : undefined;
  }

  async #recoverLost({ threadId, runIds, row, includesStuck }: Lost, isAmongOthers: boolean): Promise<void> {
    const look = await unlessAborted(this.#parts.look(threadId, this.#options.drift), this.#options.signal);
    if (look === undefined) return;
    const { taskId } = look.status;
    const reason = reasonToSkip(look, row, this.#options.drift);
    if (reason === "running") return;
    if (reason !== undefined) {
      if (SETTLED.includes(reason.code)) {
        // Another worker may have resumed it since: then it was none of ours.
        if ((await this.#lost(threadId, includesStuck)) === undefined) return;
        await this.#internals.store.endRecovery(threadId, runIds);
      }
      return this.#skip({ threadId, taskId, reason });
    }
    this.#skipped?.delete(threadId);
    const progress = progressOf(look);
    const isAgain = row !== undefined && row.progress === progress && !(row.givenUp && includesStuck);
    if (isAgain && row.givenUp) return;
    const tries = isAgain ? row.tries + 1 : 1;
    if (tries > 1 && tries <= this.#options.tries && runIds.length > 0 && isAmongOthers) return void this.#suspects.add(threadId);
    if (isAgain && tries > this.#options.tries) return this.#giveUpDead(look, row, runIds);
    // Should this try kill its process, others wait. But the first one may have been killed by chance.
    const next = { tries, progress, waitMs: tries === 1 ? 0 : this.#waitAfter(tries - 1) };
    const seen = row && { tries: row.tries, triedAt: row.triedAt };
    const claim: RecoveryClaim = { runIds, seen, next, at: this.#internals.now() };
    const { drift } = this.#options;
    const own = await this.#configOf({ threadId, taskId });
    let hasFailed = false;
    const failed = (error: unknown): Promise<RunEnd> => {
      hasFailed = true;
      return this.#failed(error, { threadId, taskId, next, row });
    };
    const isOurs = await this.#parts.resume({ threadId, drift, config: own }, claim, failed);
    if (isOurs && !hasFailed) this.#report.resumed.push({ threadId, taskId });
  }

  /** @throws {TurnsError} INVALID_OPTION if the user's function throws: then other threads can be resumed all the same */
  async #configOf(thread: Parameters<OfThread>[0]): Promise<object> {
    const { config = {} } = this.#options;
    if (!isOfThread(config)) return config;
    try {
      return await config(thread);
    } catch (cause) {
      throw new TurnsError("INVALID_OPTION", {
        problem: `The function given as option \`config\` threw for thread ${describe(thread.threadId)} (${told(cause).message}).`,
        remedy: "The thread wasn't resumed. Return the config for it; recovery looks at it again.",
        data: { option: "config", threadId: thread.threadId },
        cause,
      });
    }
  }

  /** A run that recovery has started failed. @returns what becomes of its mark */
  async #failed(
    error: unknown,
    {
      threadId,
      taskId,
      next,
      row,
    }: Pick<Lost, "threadId" | "row"> & Pick<RecoveryClaim, "next"> & { taskId: string | undefined },
  ): Promise<RunEnd> {
    const code = codeOf(error);
    if (NOT_OURS.includes(code) || !this.#internals.store.isOpen()) return "recorded";
    const { logger, keepsErrors } = this.#internals;
    const save = async (tried: RecoveryClaim["next"], failure: string, givenUp: boolean): Promise<void> => {
      const lease = this.#internals.leaseOf(threadId);
      await this.#internals.store.saveRecovery(threadId, { ...tried, failure, givenUp }, lease, this.#internals.now());
    };
    if (STOPPING.includes(code) || FOR_OTHERS.includes(code)) {
      await save({ ...next, tries: next.tries - 1, waitMs: 0 }, row?.failure ?? "{}", false);
      if (error instanceof TurnsError && FOR_OTHERS.includes(code)) this.#skip({ threadId, taskId, reason: error });
      return "left";
    }
    const look = await this.#parts.look(threadId, this.#options.drift).catch(() => undefined);
    const nodeName = look && lastOf(look.status.failed);
    const failure: Failure = { taskId, nodeName, error: told(error) };
    const text = failureText(failure, keepsErrors);
    if (code === "EFFECT_IN_DOUBT") {
      await save({ ...next, tries: next.tries - 1, waitMs: 0 }, text, false);
      this.#skip({ threadId, taskId, reason: error as TurnsError });
      return "recorded";
    }
    const progress = look === undefined ? next.progress : progressOf(look);
    const tries = progress === next.progress ? next.tries : 1;
    const givenUp = tries >= this.#options.tries;
    const waitMs = givenUp ? 0 : this.#waitAfter(tries);
    await save({ tries, progress, waitMs }, text, givenUp);
    const at = new Date(this.#internals.now());
    const stuck = { threadId, tries, at, ...failureOf(text) };
    const message = `Thread ${describe(threadId)} was resumed and failed again${givenUp ? `, ${tries} times: recovery gives it up. saver.turns.stuck() lists it` : ""}`;
    logger[givenUp ? "error" : "warn"](
      { threadId, node: nodeName, tries, code: stuck.error.code ?? stuck.error.name, waitMs },
      message,
    );
    if (givenUp) this.#report.givenUp.push(stuck);
    else this.#report.failed.push({ ...stuck, retryAt: new Date(at.getTime() + waitMs) });
    return "recorded";
  }

  /** Each of its tries has killed its process. */
  async #giveUpDead({ status }: Look, row: RecoveryRow, runIds: readonly string[]): Promise<void> {
    const { threadId, taskId } = status;
    const { error } = failureOf(row.failure);
    const failure: Failure = { taskId, nodeName: lastOf(status.inFlight) ?? lastOf(status.failed), error };
    const text = failureText(failure, true);
    const { tries, progress, triedAt } = row;
    const isSaved = await this.#internals.store.saveRecovery(
      threadId,
      { tries, progress, waitMs: 0, failure: text, givenUp: true },
      undefined,
      this.#internals.now(),
      { seen: { tries, triedAt }, runIds },
    );
    // Somebody has taken care of it since.
    if (!isSaved) return;
    const stuck = toStuck({ ...row, failure: text, triedAt: this.#internals.now() });
    this.#internals.logger.error(
      { threadId, node: stuck.nodeName, tries },
      `Thread ${describe(threadId)} was resumed ${tries} times, and its process died: recovery gives it up. saver.turns.stuck() lists it`,
    );
    this.#report.givenUp.push(stuck);
  }

  #skip({ threadId, taskId, reason: { code, message } }: SkippedThread): void {
    const known = this.#skipped?.get(threadId);
    const waitMs = known?.code === code ? Math.min(known.waitMs * 2, LOOK_AGAIN_MS.most) : LOOK_AGAIN_MS.first;
    this.#skipped?.set(threadId, { code, at: this.#internals.now() + waitMs * (0.5 + Math.random() / 2), waitMs });
    // Other workers have the graph of this thread.
    if (code === "WRONG_GRAPH" || known?.code === code) return;
    this.#report.skipped.push({ threadId, taskId, reason: { code, message } });
  }

  #waitAfter(tries: number): number {
    const waitMs = Math.min(this.#options.waitMs * 3 ** (tries - 1), WAIT_MAX_MS);
    return Math.round(waitMs * (0.5 + Math.random() / 2));
  }
}

/** What a recovery would do with a thread. */
export interface PlannedRecovery {
  status: ThreadStatus;
  /** Why it's skipped; undefined if it's resumed. */
  skips: ReturnType<typeof reasonToSkip>;
  /** Effects in doubt that stop it, unless the code of their node has a probe. */
  doubts: readonly Effect[];
}

export async function recoveryOf(parts: RecoverParts, threadId: string): Promise<PlannedRecovery> {
  const internals = internalsOf(parts.saver);
  const look = await parts.look(threadId, undefined);
  const row = await internals.store.recoveryOf(threadId, internals.now());
  const doubts = look.status.inDoubt.filter((effect) => look.settledBy(effect) === "maybe-probe");
  return { status: look.status, skips: reasonToSkip(look, row, undefined), doubts };
}

/** Skipped because nothing is left to recover. */
const SETTLED: readonly string[] = ["WAITING", "FINISHED", "NOTHING_TO_RESUME"];

function reasonToSkip(
  { status, found, settledBy, atBreakpoint }: Look,
  row: RecoveryRow | undefined,
  drift: Drift,
): { code: string; message: string } | "running" | undefined {
  const { reason, waiting, inDoubt, finished } = status;
  const { obstacle, unfinished } = found;
  if (status.running) return "running";
  if (reason !== undefined && (finished || reason.code === "REWIND_UNFINISHED")) return reason;
  if (obstacle !== undefined) {
    const isLeft =
      obstacle.code === "GRAPH_CHANGED"
        ? drift === undefined || status.onResume === "refuse"
        : FOR_OTHERS.includes(obstacle.code);
    if (isLeft || obstacle.code === "NOTHING_TO_RESUME") return obstacle;
  }
  const nodes = (unfinished?.nodes ?? []).map((name) => JSON.stringify(name)).join(", ");
  const questions = unfinished?.questions?.length ?? 0;
  if (unfinished?.waits === true && waiting.length >= questions)
    return { code: "WAITING", message: `it waits for an answer at ${nodes}` };
  if (atBreakpoint) return { code: "WAITING", message: `it stopped at the breakpoint of ${nodes}` };
  const open = inDoubt.find((effect) => {
    const by = effect.status === "in-doubt" ? settledBy(effect) : undefined;
    return (
      by === "person" || (by === "maybe-probe" && row !== undefined && failureOf(row.failure).error.code === "EFFECT_IN_DOUBT")
    );
  });
  if (open === undefined) return undefined;
  const { name, label, key, nodeName, id } = open;
  const message = `it isn't known whether effect ${describe(name)} (${label}, key ${key}) of node ${describe(nodeName)} happened. Settle it: saver.effects.resolve(${JSON.stringify(id)}, …)`;
  return { code: "EFFECT_IN_DOUBT", message };
}

/** How far the thread's last run is: it has come further if this differs. */
function progressOf({ found: { run, nodes } }: Look): string {
  return `${run?.branch[0] ?? ""}:${nodes.completed.length}`;
}

function isDue({ sinceMs, waitMs }: RecoveryRow): boolean {
  return sinceMs >= waitMs || sinceMs < -CLOCK_SET_BACK_MS;
}

function lastOf(nodes: ThreadStatus["failed"]): string | undefined {
  return [...nodes].sort((left, right) => left.at.getTime() - right.at.getTime()).at(-1)?.nodeName;
}

function told(error: unknown): Failure["error"] {
  if (!(error instanceof Error)) return { name: "Error", code: undefined, message: describe(error) };
  const { code } = error as { code?: unknown };
  return { name: error.name, code: typeof code === "string" ? code : undefined, message: error.message };
}

function codeOf(error: unknown): string {
  return TurnsError.is(error) ? error.code : "";
}

function shuffled<T>(items: T[]): T[] {
  for (let at = items.length - 1; at > 0; at -= 1) {
    const other = Math.floor(Math.random() * (at + 1));
    [items[at], items[other]] = [items[other] as T, items[at] as T];
  }
  return items;
}
