import { describe, TurnsError } from "../errors";
import type { Logger } from "../logger";
import { refuseWhileRunning, threadRunning } from "../rewind/plan";
import { leaseLost, unfinishedRewind } from "../store/refusals";
import {
  type Awaitable,
  type FoundAtStart,
  LEFT,
  type Lease,
  type RecoveryClaim,
  type RewindRow,
  type RunRow,
  type Store,
} from "../store/store";
import { uptime } from "../system";
import { Draining, OpenWork } from "./draining";
import { BEAT_EXPIRY_MS, holdId, isAlive, isLost, runsOfThisProcess, thisProcess } from "./process-identity";
import { atEndOfMacrotask, every, later, noMore } from "../timers";

/**
 * A run may never report its end, as a broken-off stream of LangGraph 1.4 doesn't. So a run without a reservation counts as over
 * when it was quiet for this long: no node running, no commit. How long depends on what it may be waiting for.
 */
const LINGER_MS = {
  /** Nobody reads it any more, or no graph run is known at all. */
  left: 2_000,
  /** A router, a slow save, or a slow reader. */
  quiet: 30_000,
  /** A node's attempt failed, and a retry may be pending: longer than LangGraph's longest default wait, 128 s. */
  retrying: 150_000,
};
const CHECK_EVERY_MS = 500;
/** How long to wait for the nodes of a run that was left, and how often to look. */
const STOP_WITHIN_MS = 100;
const LOOK_EVERY_MS = 2;
/** How many given-up runs are remembered. */
const MAX_LAPSED = 1_000;
/** How long to wait before a row that couldn't be removed is tried again, from the first time to the last. */
const REMOVE_AGAIN_MS = { first: 500, most: 30_000 };
/** A heartbeat time that lets anybody take the thread. */
const FOR_THE_TAKING = 0;

/**
 * What became of a reserved run. `left`: it's unfinished because its process stops, so that another one recovers the thread. `recorded`:
 * recovery has recorded it.
 */
export type RunEnd = "succeeded" | "failed" | "left" | "recorded";

/** A thread that is held for work on the whole of it. */
export interface Hold {
  lease: Lease;
  /** A run of the thread that is left to recovery; it stays so while the thread is held, and after it. */
  lost: RunRow | undefined;
  release(): Promise<void>;
}

/** Releases a reserved thread. */
export type Release = (end?: RunEnd) => Promise<void>;

interface ActiveThread {
  /** Key of the row in the store. */
  rowId: string;
  /** Whether the row was written: only a written row can be lost. */
  marked: boolean;
  startedAt: string;
  /** Graph runs, and reservations of runs that are about to start. */
  graphRuns: Set<string>;
  /** The reservations among them. While there's one, the thread doesn't count as free. */
  reservations: Set<string>;
  /** Whether anything ran on it. */
  started: boolean;
  /** Whether it was taken from a process that had died. */
  takenOver: boolean;
  end: RunEnd | undefined;
  /** Whether a reservation was released before its graph run had reported its end. */
  left: boolean;
  /** Whether all its graph runs have finished. What still runs then was aborted and is the last of it. */
  over: boolean;
  /** Whether the attempt that finished last failed. */
  retrying: boolean;
  /** Counts of running nodes, by the namespace of their tasks. */
  nodesAtWork: Map<string, number>;
  lastActivity: number;
  lastBeat: number;
  /** Its effects are being undone. No run starts, and it doesn't count as over however long that takes. */
  rewinding: boolean;
  /** Graph runs with new input that no checkpoint contains yet. */
  inputsExpected: Set<string>;
  /** Set when its row is being removed before its last graph run has reported its end: whether that succeeds. */
  unmarked: Promise<boolean> | undefined;
  /** What was found when it was marked, for the run that starts in the same macrotask. */
  found: FoundAtStart | undefined;
}

/**
 * Runs that counted as over because they were quiet for too long. Their row is kept until somebody who wants the thread removes
 * it.
 */
interface Lapsed {
  threadId: string;
  thread: ActiveThread;
  /** Set while they are being revived, because one of their nodes started after all. */
  revival: Promise<void> | undefined;
}

/**
 * Knows which threads this process is running, and keeps a row per thread in the store so that other processes know too. A rewind
 * consults it before it touches a thread.
 *
 * The row is also the run's {@link Lease}. A process that takes the thread from a run that counts as dead, rightly or not,
 * removes its row, and the run's commits are refused from then on. So the clocks and timeouts here decide who may start, and
 * never whether two may write. If the row can't be written, the run continues and the failure is logged.
 */
export class RunRegistry {
  /**
   * Node bodies, counted by the nodes themselves: LangChain reports the end of an aborted node at once, while its body may still
   * be running.
   */
  readonly bodies = new OpenWork();
  readonly #store: Store;
  readonly #log: Logger;
  readonly #createId: () => string;
  readonly #clock: () => Date;
  readonly #threads = new Map<string, ActiveThread>();
  /** By graph run. */
  readonly #lapsed = new Map<string, Lapsed>();
  #timer: NodeJS.Timeout | undefined;

  readonly #draining: Draining;

  constructor(parts: { store: Store; log: Logger; createId: () => string; clock: () => Date; draining?: Draining }) {
    this.#draining = parts.draining ?? new Draining();
    this.#store = parts.store;
    this.#log = parts.log;
    this.#createId = parts.createId;
    this.#clock = parts.clock;
  }

  /**
   * Reserves a thread for one run, if nobody runs it. Within this process, that is decided before the first await; between
   * processes, in one transaction. The reservation holds until it is released, however quiet the run is: it may wait for a retry,
   * or for a slow router.
   *
   * @param claim to recover the thread: only if it still is as it was found
   * @returns the function that releases the thread; it must be called. Undefined if the claim is outdated.
   * @throws {TurnsError} THREAD_RUNNING; REWIND_UNFINISHED while a rewind of it is unfinished; STORE_DRAINING
   */
  async reserve(threadId: string): Promise<Release>;
  async reserve(threadId: string, claim: RecoveryClaim | undefined): Promise<Release | undefined>;
  async reserve(threadId: string, claim?: RecoveryClaim): Promise<Release | undefined> {
    this.#draining.refuseRun(threadId);
    const known = this.#threads.get(threadId);
    if (known !== undefined) this.#refuse(threadId, known);
    const thread = this.#track(threadId);
    const reservation = this.#createId();
    thread.graphRuns.add(reservation);
    thread.reservations.add(reservation);
    try {
      const refuse = (alive: readonly RunRow[], unfinished: RewindRow | undefined): void => {
        refuseWhileRunning(threadId, alive);
        if (unfinished !== undefined) throw runRefused(unfinished);
      };
      if (!(await this.#begin(threadId, thread, refuse, undefined, claim))) {
        await this.#release(threadId, thread);
        return undefined;
      }
    } catch (error) {
      await this.#release(threadId, thread);
      throw error;
    }
    return async (end) => {
      thread.reservations.delete(reservation);
      thread.left = true;
      thread.end = end;
      // Counted from here on: until now somebody was waiting for it.
      thread.lastActivity = uptime();
      await this.graphEnded(threadId, reservation);
    };
  }

  /**
   * Holds a thread for work on the whole of it that may take long: a rewind with undos, or a move. No run starts on it meanwhile, not even
   * one without a reservation.
   *
   * @param within the caller has reserved it, and isn't running anything on it
   * @throws {TurnsError} THREAD_RUNNING
   */
  async hold(threadId: string, within: boolean): Promise<Hold> {
    const known = this.#threads.get(threadId);
    const isFree = within && known?.rewinding === false && known.graphRuns.size <= 1 && known.nodesAtWork.size === 0;
    if (known !== undefined && !isFree) this.#refuse(threadId, known);
    const thread = known ?? this.#track(threadId, holdId(this.#createId()));
    const holder = this.#createId();
    thread.rewinding = true;
    thread.graphRuns.add(holder);
    const release = async (): Promise<void> => {
      thread.rewinding = false;
      thread.lastActivity = uptime();
      await this.graphEnded(threadId, holder);
    };
    let lost: RunRow | undefined;
    try {
      if (known === undefined) lost = await this.#beginHold(threadId, thread);
    } catch (error) {
      await release();
      throw error;
    }
    return { lease: { runId: thread.rowId, threadId }, lost, release };
  }

  /**
   * @returns the run's lease on the thread
   *
   * @throws {TurnsError} THREAD_RUNNING during a rewind; REWIND_UNFINISHED; LEASE_LOST if the thread was reserved for it and now
   *   belongs to somebody else
   */
  async graphStarted(threadId: string, runId: string, bringsInput: boolean): Promise<Lease | undefined> {
    const joined = this.#threads.get(threadId);
    if (joined !== undefined) await this.#join(threadId, joined, runId);
    const thread = joined ?? (await this.#activate(threadId, [runId]));
    thread.graphRuns.add(runId);
    thread.started = true;
    thread.end = undefined;
    thread.left = false;
    thread.over = false;
    thread.retrying = false;
    if (bringsInput) thread.inputsExpected.add(runId);
    return this.leaseOf(threadId);
  }

  /** The lease of the thread's current graph runs. Undefined if none is known, or if their row couldn't be written. */
  leaseOf(threadId: string): Lease | undefined {
    const thread = this.#threads.get(threadId);
    return thread?.marked === true && thread.graphRuns.size > 0 ? { runId: thread.rowId, threadId } : undefined;
  }

  /** What the run that starts now finds on its thread; undefined if it must be read. */
  foundAt(threadId: string): FoundAtStart | undefined {
    return this.#threads.get(threadId)?.found;
  }

  /**
   * A graph run has handed in its last save. If nothing else happens on the thread, its row is removed in the same transaction. Then
   * the run's end needs none of its own.
   */
  stepsEnded(threadId: string, runId: string): void {
    const thread = this.#threads.get(threadId);
    if (thread?.marked !== true || thread.unmarked !== undefined || thread.rewinding || thread.reservations.size > 0) return;
    const { graphRuns, nodesAtWork, rowId } = thread;
    if (graphRuns.size !== 1 || !graphRuns.has(runId) || nodesAtWork.size > 0 || this.bodies.countOf(threadId) > 0) return;
    const unmarking = async (): Promise<boolean> => {
      await this.#store.endRun(rowId, "boundary");
      return true;
    };
    thread.unmarked = unmarking().catch(() => false);
  }

  async graphEnded(threadId: string, runId: string): Promise<void> {
    await this.#forgetLapsed(runId);
    const thread = this.#threads.get(threadId);
    if (thread === undefined) return;
    thread.graphRuns.delete(runId);
    thread.inputsExpected.delete(runId);
    thread.over = thread.graphRuns.size === 0;
    if (thread.over) await this.#releaseWhenDone(threadId, thread);
  }

  /**
   * @param runId the outermost graph run that contains the node
   * @param isLate whether that run is over: nothing comes after the node
   * @throws {TurnsError} LEASE_LOST if that run counted as over, and the thread changed hands since; THREAD_RUNNING,
   *   REWIND_UNFINISHED
   */
  nodeStarted(threadId: string, ns: string, runId: string, isLate = false): Awaitable<void> {
    const thread = this.#threads.get(threadId);
    const lapsed = this.#lapsed.get(runId);
    const isKnown = thread !== undefined && !thread.rewinding && lapsed?.threadId !== threadId;
    if (!isKnown) return this.#nodeStartsAnew(threadId, ns, lapsed, isLate);
    begin(thread, ns);
  }

  /** A node starts on a thread without a known run, or on one that is being rewound. */
  async #nodeStartsAnew(threadId: string, ns: string, lapsed: Lapsed | undefined, isLate: boolean): Promise<void> {
    if (lapsed?.threadId === threadId) await (lapsed.revival ??= this.#revive(lapsed));
    const isNew = !this.#threads.has(threadId);
    const thread = await this.#activate(threadId);
    if (isNew && isLate) thread.over = true;
    begin(thread, ns);
  }

  /**
   * The last node of a run that is {@link ActiveThread.over} frees its thread.
   *
   * @param failed whether LangGraph may retry the node
   */
  nodeEnded(threadId: string, ns: string, failed: boolean): Awaitable<void> {
    const thread = this.#threads.get(threadId);
    if (thread === undefined) return;
    const left = (thread.nodesAtWork.get(ns) ?? 0) - 1;
    if (left > 0) thread.nodesAtWork.set(ns, left);
    else thread.nodesAtWork.delete(ns);
    // A sibling that succeeds says nothing about the one that waits for its retry.
    thread.retrying ||= failed;
    thread.lastActivity = uptime();
    if (thread.over) return this.#releaseWhenDone(threadId, thread);
  }

  /** Frees the thread of a finished run as soon as nothing of it is running any more. */
  async #releaseWhenDone(threadId: string, thread: ActiveThread): Promise<void> {
    if (thread.nodesAtWork.size > 0) return;
    const end = this.bodies.endOf(threadId);
    if (end === undefined) return this.#release(threadId, thread);
    void end.then(() => {
      if (this.#threads.get(threadId) === thread && thread.over) return this.#releaseWhenDone(threadId, thread);
      return undefined;
    });
  }

  /** Waits a moment for the nodes of a run that was left: one that heeds the signal ends soon after LangGraph has stopped the run. */
  async nodesStopped(threadId: string): Promise<void> {
    const until = uptime() + STOP_WITHIN_MS;
    const isAtWork = (): boolean => (this.#threads.get(threadId)?.nodesAtWork.size ?? 0) > 0 || this.bodies.countOf(threadId) > 0;
    while (isAtWork() && uptime() < until) await new Promise((resolve) => later(resolve, LOOK_EVERY_MS));
  }

  /** A commit on the thread shows that the run is alive. */
  touch(threadId: string): void {
    const thread = this.#threads.get(threadId);
    if (thread !== undefined) thread.lastActivity = uptime();
  }

  /** The active graph runs of a thread, including reservations. */
  graphRunsOf(threadId: string): readonly string[] {
    return [...(this.#threads.get(threadId)?.graphRuns ?? [])];
  }

  /**
   * The threads with something running: a node, an undo, a run that is about to start, or one that was active since that time and may
   * start its next node.
   */
  atWork(since: number): string[] {
    return [...this.#threads]
      .filter(([threadId, { rewinding, nodesAtWork, graphRuns, started, lastActivity }]) => {
        if (rewinding || nodesAtWork.size > 0 || this.bodies.countOf(threadId) > 0) return true;
        // Before its start, a run waits for the database alone, however long that takes.
        return graphRuns.size > 0 && (!started || lastActivity >= since);
      })
      .map(([threadId]) => threadId);
  }

  /** Whether a task of this namespace is running. */
  isAtWork(threadId: string, ns: string): boolean {
    return this.#threads.get(threadId)?.nodesAtWork.has(ns) ?? false;
  }

  /** An input checkpoint is being saved, so no run of the thread has unsaved input any more. */
  inputSaved(threadId: string): void {
    this.#threads.get(threadId)?.inputsExpected.clear();
  }

  /** Whether the nodes of this graph run start although its input was never saved: durability "exit". Asking clears it. */
  takeUnsavedInput(threadId: string, runId: string): boolean {
    const expected = this.#threads.get(threadId)?.inputsExpected;
    if (expected?.has(runId) !== true) return false;
    expected.clear();
    return true;
  }

  /** Removes the rows, but leaves unfinished threads to recovery. Running work stays known: its failing saves still ask. */
  close(): void {
    noMore(this.#timer);
    this.#timer = undefined;
    for (const [threadId, thread] of this.#threads) {
      if (thread.nodesAtWork.size > 0 || thread.reservations.size > 0) thread.end ??= "left";
      void this.#unmark(threadId, thread);
    }
    for (const { threadId, thread } of new Set(this.#lapsed.values())) void this.#unmark(threadId, thread);
  }

  async #activate(threadId: string, graphRuns: readonly string[] = []): Promise<ActiveThread> {
    const known = this.#threads.get(threadId);
    if (known !== undefined) {
      if (known.rewinding) this.#refuse(threadId, known);
      known.lastActivity = uptime();
      return known;
    }
    const thread = this.#track(threadId);
    try {
      await this.#markUnlessRewinding(threadId, thread, graphRuns);
      return thread;
    } catch (error) {
      await this.#release(threadId, thread);
      throw error;
    }
  }

  /** @throws {TurnsError} REWIND_UNFINISHED */
  async #markUnlessRewinding(threadId: string, thread: ActiveThread, graphRuns: readonly string[] = []): Promise<void> {
    let found: RewindRow | undefined;
    const refuse = (_: readonly RunRow[], unfinished: RewindRow | undefined): void => void (found = unfinished);
    await this.#keep(threadId, async () => void (await this.#begin(threadId, thread, refuse, graphRuns)));
    if (found !== undefined) throw runRefused(found);
  }

  /** Adds a graph run to those of a thread: at once, so that the thread isn't released when the others end. */
  async #join(threadId: string, thread: ActiveThread, runId: string): Promise<void> {
    if (thread.rewinding) this.#refuse(threadId, thread);
    thread.lastActivity = uptime();
    thread.graphRuns.add(runId);
    // A late node of the run before may end while this one waits. It isn't the thread's last any more.
    thread.over = false;
    try {
      await this.#renewMark(threadId, thread);
    } catch (error) {
      await this.graphEnded(threadId, runId);
      throw error;
    }
  }

  /** For a run that joins others: their row may have been removed while the process was suspended. */
  async #renewMark(threadId: string, thread: ActiveThread): Promise<void> {
    const { rowId, marked } = thread;
    if (!marked) return;
    let lost: unknown;
    await this.#keep(threadId, async () => {
      try {
        await this.#store.checkLease({ runId: rowId, threadId });
      } catch (error) {
        if (!TurnsError.is(error, "LEASE_LOST")) throw error;
        lost = error;
      }
    });
    if (lost === undefined || thread.rowId !== rowId) return;
    if (thread.reservations.size > 0) throw lost as Error;
    runsOfThisProcess.delete(rowId);
    thread.rowId = this.#createId();
    thread.marked = false;
    thread.unmarked = undefined;
    runsOfThisProcess.add(thread.rowId);
    await this.#markUnlessRewinding(threadId, thread);
  }

  /**
   * Runs that counted as over are alive: one of their nodes starts. They continue if nobody has taken the thread meanwhile.
   *
   * @throws {TurnsError} LEASE_LOST
   */
  async #revive(lapsed: Lapsed): Promise<void> {
    const { threadId, thread } = lapsed;
    let isThere = true;
    await this.#keep(threadId, async () => void (isThere = (await this.#store.beatRuns([thread.rowId], uptime())).length > 0));
    const known = this.#threads.get(threadId);
    if (known !== undefined) throw leaseLost({ threadId }, this.#row(threadId, known));
    if (!isThere) throw leaseLost({ threadId }, await this.#holderOf(threadId));
    for (const [runId, one] of this.#lapsed) if (one === lapsed) this.#lapsed.delete(runId);
    thread.lastActivity = uptime();
    this.#add(threadId, thread);
  }

  async #holderOf(threadId: string): Promise<RunRow | undefined> {
    let holder: RunRow | undefined;
    await this.#keep(threadId, async () => void (holder = (await this.#store.listRuns(threadId))[0]));
    return holder;
  }

  #track(threadId: string, rowId = this.#createId()): ActiveThread {
    const now = uptime();
    const thread: ActiveThread = {
      rowId,
      marked: false,
      startedAt: this.#clock().toISOString(),
      graphRuns: new Set(),
      reservations: new Set(),
      started: false,
      takenOver: false,
      end: undefined,
      left: false,
      over: false,
      retrying: false,
      nodesAtWork: new Map(),
      lastActivity: now,
      lastBeat: now,
      rewinding: false,
      inputsExpected: new Set(),
      unmarked: undefined,
      found: undefined,
    };
    this.#add(threadId, thread);
    return thread;
  }

  #add(threadId: string, thread: ActiveThread): void {
    this.#threads.set(threadId, thread);
    runsOfThisProcess.add(thread.rowId);
    this.#timer ??= every(() => this.#check(), CHECK_EVERY_MS).unref();
  }

  /** Marks the thread in the store and clears the marks that dead processes left. */
  async #begin(
    threadId: string,
    thread: ActiveThread,
    refuse: (alive: readonly RunRow[], unfinished: RewindRow | undefined) => void,
    graphRuns: readonly string[] = [...thread.graphRuns],
    claim?: RecoveryClaim,
  ): Promise<boolean> {
    const guard = (others: readonly RunRow[], unfinished: RewindRow | undefined): RunRow[] => {
      const dead = others.filter((run) => !isAlive(run));
      refuse(
        others.filter((run) => !dead.includes(run)),
        unfinished,
      );
      thread.takenOver = dead.some((run) => isLost(run));
      return dead;
    };
    const row = this.#row(threadId, thread);
    if (claim === undefined) thread.found = await this.#store.beginRun(row, guard, graphRuns);
    else if (!(await this.#store.beginRecovery(row, claim, guard))) return false;
    thread.marked = true;
    // Later, others may have saved.
    if (thread.found !== undefined) atEndOfMacrotask(() => (thread.found = undefined));
    return true;
  }

  /**
   * Marks the thread as held.
   * @returns a run of it that is left to recovery
   */
  async #beginHold(threadId: string, thread: ActiveThread): Promise<RunRow | undefined> {
    let lost: RunRow | undefined;
    await this.#store.beginHold(this.#row(threadId, thread), (others) => {
      const dead = others.filter((run) => !isAlive(run));
      refuseWhileRunning(
        threadId,
        others.filter((run) => !dead.includes(run)),
      );
      lost = dead.find((run) => isLost(run));
      return { over: dead.filter((run) => !isLost(run)), lost: dead.filter((run) => isLost(run)) };
    });
    thread.marked = true;
    return lost;
  }

  #row(threadId: string, { rowId: runId, startedAt, lastBeat: beatAt }: ActiveThread): RunRow {
    return { runId, threadId, ...thisProcess(), startedAt, beatAt };
  }

  /** @throws {TurnsError} THREAD_RUNNING */
  #refuse(threadId: string, thread: ActiveThread): never {
    const nodes = [...thread.nodesAtWork.values()].reduce((sum, count) => sum + count, 0);
    throw threadRunning(this.#row(threadId, thread), thread.over || thread.left ? nodes || this.bodies.countOf(threadId) : 0);
  }

  async #release(threadId: string, thread: ActiveThread): Promise<void> {
    this.#remove(threadId);
    await this.#unmark(threadId, thread);
  }

  #remove(threadId: string): void {
    this.#threads.delete(threadId);
    if (this.#threads.size > 0) return;
    noMore(this.#timer);
    this.#timer = undefined;
  }

  /** The run is over from here on, even if its row can't be removed now. */
  async #unmark(threadId: string, thread: ActiveThread): Promise<void> {
    // Without that there's no await before the row is handed in: `close` closes the store right after.
    const isUnmarked = thread.unmarked !== undefined && (await thread.unmarked);
    runsOfThisProcess.delete(thread.rowId);
    if (isUnmarked) return;
    const { end, started, marked, rowId, takenOver } = thread;
    // Who only looked at a thread, and was refused, leaves it to recovery as it was.
    const isLeft = marked && (end === "left" ? started || takenOver : end === "failed" && !started && takenOver);
    const ran = started && (end === "succeeded" || end === "failed") ? { threadId, succeeded: end === "succeeded" } : undefined;
    const removed = async (told = ran): Promise<void> => {
      if (!this.#store.isOpen()) return;
      if (isLeft) await this.#store.beatRuns([rowId], LEFT);
      else await this.#store.endRun(rowId, "now", told);
    };
    let isDone = false;
    await this.#keep(threadId, async () => {
      await removed();
      isDone = true;
    });
    // Else it would keep the thread from others while this process lives, and recovery would resume it later.
    if (!isDone && marked) this.#removeLater(async () => removed(undefined));
  }

  /** The database couldn't be reached. What recovery has recorded meanwhile stays. */
  #removeLater(removed: () => Promise<void>, waitMs = REMOVE_AGAIN_MS.first): void {
    if (!this.#store.isOpen()) return;
    const again = (): void => {
      removed().catch(() => this.#removeLater(removed, Math.min(waitMs * 2, REMOVE_AGAIN_MS.most)));
    };
    later(again, waitMs).unref();
  }

  #check(): void {
    const now = uptime();
    for (const [threadId, thread] of this.#threads)
      if (isOver(thread, this.bodies.countOf(threadId), now)) this.#lapse(threadId, thread);
    const isDue = ({ lastBeat }: ActiveThread): boolean => now - lastBeat > BEAT_EXPIRY_MS / 6;
    if ([...this.#threads.values()].some(isDue)) void this.#beat(now);
  }

  /** For all runs at once: one statement, however many there are. */
  async #beat(now: number): Promise<void> {
    const threads = [...this.#threads];
    for (const [, thread] of threads) thread.lastBeat = now;
    const rowIds = threads.map(([, { rowId }]) => rowId);
    const marked = threads.filter(([, thread]) => thread.marked && thread.unmarked === undefined);
    await this.#keep(threads.map(([threadId]) => threadId).join(", "), async () => {
      if (!this.#store.isOpen()) return;
      const there = await this.#store.beatRuns(rowIds, now);
      for (const [threadId, { rowId }] of marked)
        if (!there.includes(rowId) && rowIds.includes(rowId))
          this.#log.warn({ threadId }, "the thread was taken over by another process: what its run still saves here is refused");
    });
  }

  /** If a graph run may return, its row is kept: it proves that nobody else has touched the thread. */
  #lapse(threadId: string, thread: ActiveThread): void {
    if (thread.graphRuns.size === 0) return void this.#release(threadId, thread);
    this.#remove(threadId);
    runsOfThisProcess.delete(thread.rowId);
    const lapsed: Lapsed = { threadId, thread, revival: undefined };
    for (const runId of thread.graphRuns) this.#lapsed.set(runId, lapsed);
    void this.#keep(threadId, async () => {
      if (this.#store.isOpen()) await this.#store.beatRuns([thread.rowId], FOR_THE_TAKING);
    });
    for (const runId of [...this.#lapsed.keys()].slice(0, Math.max(0, this.#lapsed.size - MAX_LAPSED)))
      void this.#forgetLapsed(runId);
  }

  async #forgetLapsed(runId: string): Promise<void> {
    const lapsed = this.#lapsed.get(runId);
    if (lapsed === undefined) return;
    this.#lapsed.delete(runId);
    lapsed.thread.graphRuns.delete(runId);
    if (lapsed.thread.graphRuns.size === 0) await this.#unmark(lapsed.threadId, lapsed.thread);
  }

  async #keep(threadId: string, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (!this.#store.isOpen()) return;
      this.#log.warn({ threadId, error: String(error) }, "the mark that this thread is running could not be kept");
    }
  }
}

/** A node is running from here on. */
function begin(thread: ActiveThread, ns: string): void {
  thread.started = true;
  thread.lastActivity = uptime();
  thread.retrying = false;
  thread.nodesAtWork.set(ns, (thread.nodesAtWork.get(ns) ?? 0) + 1);
}

/** @param bodies how many node bodies are running on the thread */
function isOver(
  { rewinding, reservations, nodesAtWork, graphRuns, ...thread }: ActiveThread,
  bodies: number,
  now: number,
): boolean {
  if (rewinding || reservations.size > 0 || nodesAtWork.size > 0) return false;
  const { retrying, left, quiet } = LINGER_MS;
  // A body that ignores for this long that its run was aborted may never finish.
  if (thread.over && bodies > 0) return now - thread.lastActivity > quiet;
  const gone = graphRuns.size === 0 || thread.left;
  return now - thread.lastActivity > (thread.retrying && graphRuns.size > 0 ? retrying : gone ? left : quiet);
}

/** The effects that an unfinished rewind has undone are gone, although the thread's state still shows them. */
function runRefused(rewind: RewindRow): TurnsError {
  return unfinishedRewind(rewind, `a run of thread ${describe(rewind.threadId)}`);
}
