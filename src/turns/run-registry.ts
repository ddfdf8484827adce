import type { Logger } from "../logger";
import type { Store } from "../store/store";
import { BEAT_EXPIRY_MS, isAlive, thisProcess } from "./process-identity";

/** Without a node at work and without a commit, a run that never reported its end (a stream that was broken off) is over. */
const LINGER_MS = 2_000;
const CHECK_EVERY_MS = 500;

interface ActiveThread {
  /** Key of the row in the store. */
  rowId: string;
  graphRuns: Set<string>;
  nodesAtWork: number;
  lastActivity: number;
  lastBeat: number;
  /** Graph runs that brought new input which no checkpoint has shown yet. */
  inputsExpected: Set<string>;
}

/**
 * Knows which threads this process is running, and keeps a row per thread in the store so that other processes know too. It is what
 * a rewind asks before it touches a thread. Failing to keep the row never stops a run: it is logged.
 */
export class RunRegistry {
  readonly #store: Store;
  readonly #log: Logger;
  readonly #createId: () => string;
  readonly #clock: () => Date;
  readonly #threads = new Map<string, ActiveThread>();
  #timer: NodeJS.Timeout | undefined;

  constructor(parts: { store: Store; log: Logger; createId: () => string; clock: () => Date }) {
    this.#store = parts.store;
    this.#log = parts.log;
    this.#createId = parts.createId;
    this.#clock = parts.clock;
  }

  async graphStarted(threadId: string, runId: string, bringsInput: boolean): Promise<void> {
    const thread = await this.#activate(threadId);
    thread.graphRuns.add(runId);
    if (bringsInput) thread.inputsExpected.add(runId);
  }

  async graphEnded(threadId: string, runId: string): Promise<void> {
    const thread = this.#threads.get(threadId);
    if (thread === undefined) return;
    thread.graphRuns.delete(runId);
    thread.inputsExpected.delete(runId);
    if (thread.graphRuns.size === 0 && thread.nodesAtWork === 0) await this.#release(threadId, thread);
  }

  async nodeStarted(threadId: string): Promise<void> {
    const thread = await this.#activate(threadId);
    thread.nodesAtWork += 1;
  }

  nodeEnded(threadId: string): void {
    const thread = this.#threads.get(threadId);
    if (thread === undefined) return;
    thread.nodesAtWork = Math.max(0, thread.nodesAtWork - 1);
    thread.lastActivity = Date.now();
  }

  /** A commit on the thread: the run lives. */
  touch(threadId: string): void {
    const thread = this.#threads.get(threadId);
    if (thread !== undefined) thread.lastActivity = Date.now();
  }

  nodesAtWork(threadId: string): number {
    return this.#threads.get(threadId)?.nodesAtWork ?? 0;
  }

  isRunning(threadId: string): boolean {
    return this.#threads.has(threadId);
  }

  /** An input checkpoint was saved, so no run of the thread keeps its input back any more. */
  inputSaved(threadId: string): void {
    this.#threads.get(threadId)?.inputsExpected.clear();
  }

  /** The graph run whose nodes begin although its input was never saved: durability "exit". Asking clears it. */
  takeUnsavedInput(threadId: string): string | undefined {
    const expected = this.#threads.get(threadId)?.inputsExpected;
    const runId = expected?.values().next().value;
    expected?.clear();
    return runId;
  }

  close(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    for (const [threadId, thread] of this.#threads) void this.#release(threadId, thread);
  }

  async #activate(threadId: string): Promise<ActiveThread> {
    const known = this.#threads.get(threadId);
    if (known !== undefined) {
      known.lastActivity = Date.now();
      return known;
    }
    const now = Date.now();
    const thread: ActiveThread = {
      rowId: this.#createId(),
      graphRuns: new Set(),
      nodesAtWork: 0,
      lastActivity: now,
      lastBeat: now,
      inputsExpected: new Set(),
    };
    this.#threads.set(threadId, thread);
    this.#timer ??= setInterval(() => this.#check(), CHECK_EVERY_MS).unref();
    await this.#keep(threadId, async () => {
      for (const run of await this.#store.listRuns(threadId)) if (!isAlive(run, now)) await this.#store.endRun(run.runId);
      const startedAt = this.#clock().toISOString();
      await this.#store.beginRun({ runId: thread.rowId, threadId, ...thisProcess(), startedAt, beatAt: now });
    });
    return thread;
  }

  async #release(threadId: string, thread: ActiveThread): Promise<void> {
    this.#threads.delete(threadId);
    if (this.#threads.size === 0) {
      clearInterval(this.#timer);
      this.#timer = undefined;
    }
    await this.#keep(threadId, async () => {
      if (this.#store.open) await this.#store.endRun(thread.rowId);
    });
  }

  #check(): void {
    const now = Date.now();
    for (const [threadId, thread] of this.#threads) {
      if (thread.nodesAtWork === 0 && now - thread.lastActivity > LINGER_MS) void this.#release(threadId, thread);
      else if (now - thread.lastBeat > BEAT_EXPIRY_MS / 6) {
        thread.lastBeat = now;
        void this.#keep(threadId, async () => {
          if (this.#store.open) await this.#store.beatRun(thread.rowId, now);
        });
      }
    }
  }

  async #keep(threadId: string, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.#log.warn({ threadId, error: String(error) }, "the mark that this thread is running could not be kept");
    }
  }
}
