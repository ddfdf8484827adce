import { chunkAddresses } from "../codec";
import { describe, TurnsError } from "../errors";
import { checkedOptions } from "../options";
import { type Page, pageOf, type PageOptions, rowsFor, seqPage, textPage } from "../page";
import { checkedArgument } from "../run-config";
import { loaded, loadedRecord, type UserSerde } from "../serde";
import { sideBySide } from "../side-by-side";
import { type TaskSpan, taskSpans } from "../store/ownership";
import type { NodeTokens } from "../store/token-sums";
import type { RunRow, Store } from "../store/store";
import { freshly } from "../tuples";
import type { Values } from "../values";
import { isAlive } from "./process-identity";
import { type StuckThread, toStuck } from "./stuck";
import { type TokenUsage, tokenUsageOf } from "./tokens";
import { inFlight, refuseNoTurn, stateOfTurn, surroundings, toPublicTurn, type Turn } from "./turn";

/** A task of a thread: everything done for it, even if other tasks came in between. */
export interface Task {
  taskId: string;
  graphId: string;
  firstSeq: number;
  /** The last seq that can belong to the task: the one before the next task starts. Undefined for the newest task. */
  endSeq: number | undefined;
  createdAt: Date;
  /** Tokens of its turns that were pruned since, by node; absent if there are none. */
  prunedTokens?: readonly NodeTokens[];
}

/** A run of an attached graph, in a live process. */
interface Run {
  runId: string;
  threadId: string;
  host: string;
  pid: number;
  startedAt: Date;
}

/** @internal */
interface TurnsParts {
  store: Store;
  values: Values;
  serde: UserSerde | undefined;
}

/** The turns of threads, their totals, and which are in flight: `saver.turns`. */
export class Turns {
  readonly #parts: TurnsParts;

  /** @internal */
  constructor(parts: TurnsParts) {
    this.#parts = parts;
  }

  /**
   * Lists the turns of a thread, oldest first. A turn's `seq` is its position: pass any seq as `after` to start behind it.
   *
   * @throws {TurnsError} INVALID_OPTION
   */
  async list(threadId: string, options: PageOptions = {}): Promise<Page<Turn>> {
    const { after: afterSeq, limit } = checkedOptions(seqPage, options);
    const id = checkedArgument(threadId, "threadId", "turns.list");
    const rows = await this.#parts.store.listTurns({ threadId: id, afterSeq, limit: rowsFor(limit) });
    return pageOf(rows.map(toPublicTurn), limit, ({ seq }) => seq);
  }

  /**
   * Reads the state of a turn: what a Thought's node started from, or what an Action's node returned.
   *
   * @throws {TurnsError} INVALID_CONFIG naming the invalid field; CHECKPOINT_NOT_FOUND if the turn, or the checkpoint a Thought
   *   refers to, is gone; TURN_NOT_KEPT if the turn was saved without content, as the options `redact` and `turns` can make it
   */
  async state(turn: Pick<Turn, "threadId" | "seq" | "id">): Promise<Record<string, unknown>> {
    refuseNoTurn(turn);
    const { store, values: codec, serde } = this.#parts;
    const { threadId } = turn;
    const [row] = await store.listTurns({ threadId, afterSeq: turn.seq - 1, limit: 1 });
    if (row?.id !== turn.id) throw turnGone(turn.id);
    return freshly(codec, threadId, async (remembered) => {
      const { checkpointId, ns = "" } = row;
      const [behind, chunks] = await sideBySide(
        () => (checkpointId === undefined ? undefined : store.getCheckpoint(threadId, ns, checkpointId, remembered)),
        () => store.readChunks(threadId, chunkAddresses(row.serializedState)),
      );
      const own = await loaded(serde, codec.decoded(threadId, row.serializedState, { generation: "", chunks }));
      const stored = isPlainRecord(own) ? await loadedRecord(serde, own) : own;
      const values = behind && (await loadedRecord(serde, codec.values(behind, behind, false)));
      return stateOfTurn(row, stored, () => values);
    });
  }

  /** Lists the turns that a crash interrupted: those at the head of a thread whose node had started and not durably completed. */
  async inFlight(threadId: string): Promise<Turn[]> {
    const { store } = this.#parts;
    const open = (await store.openThoughts(checkedArgument(threadId, "threadId", "turns.inFlight"))).map(toPublicTurn);
    const around = surroundings(open);
    return inFlight(open, new Set(around.length === 0 ? [] : await store.knownNodeTasks(threadId, around)));
  }

  /**
   * Lists the tasks of a thread in the order in which they finished. The newest may still be running.
   *
   * @throws {TurnsError} INVALID_OPTION
   */
  async tasks(threadId: string, options: PageOptions = {}): Promise<Page<Task>> {
    const { after = -1, limit } = checkedOptions(seqPage, options);
    const spans = taskSpans(await this.#parts.store.listTasks(checkedArgument(threadId, "threadId", "turns.tasks")));
    const behind = spans.filter(({ endSeq }) => endSeq > after).map(toTask);
    return pageOf(behind, limit, ({ endSeq }) => endSeq ?? Number.MAX_SAFE_INTEGER);
  }

  /**
   * Sums up by task and by node what the models of a thread's nodes reported. Each turn has its own counts in `tokens`. Counts
   * are committed as they are reported, so a crash keeps them. Pruned turns are included.
   */
  async tokenUsage(threadId: string): Promise<TokenUsage> {
    return tokenUsageOf(await this.#parts.store.tokenUsage(checkedArgument(threadId, "threadId", "turns.tokenUsage")));
  }

  /** Whether a live process is running the thread. */
  async isRunning(threadId: string): Promise<boolean> {
    return (await this.#alive(threadId, "turns.isRunning")).length > 0;
  }

  /** Lists the live processes that run the thread. Only runs of attached graphs are known. */
  async liveRuns(threadId: string): Promise<Run[]> {
    return (await this.#alive(threadId, "turns.liveRuns")).map(toRun);
  }

  /**
   * Lists the threads that `runner.recover` has given up on, by id. A thread leaves the list when a run of it succeeds, when it's
   * rewound or deleted, and while `recover({ includeStuck: true })` tries it again.
   *
   * @throws {TurnsError} INVALID_OPTION
   */
  async stuck(options: PageOptions<string> = {}): Promise<Page<StuckThread, string>> {
    const { after = "", limit } = checkedOptions(textPage, options);
    const query = { after, limit: rowsFor(limit) ?? Number.MAX_SAFE_INTEGER, givenUp: true };
    return pageOf((await this.#parts.store.listRecoveries(query, Date.now())).map(toStuck), limit, ({ threadId }) => threadId);
  }

  async #alive(threadId: string, doing: string): Promise<RunRow[]> {
    const runs = await this.#parts.store.listRuns(checkedArgument(threadId, "threadId", doing));
    return runs.filter((run) => isAlive(run));
  }
}

function toTask({ endSeq, createdAt, ...task }: TaskSpan): Task {
  return { ...task, endSeq: endSeq === Infinity ? undefined : endSeq, createdAt: new Date(createdAt) };
}

function toRun({ runId, threadId, host, pid, startedAt }: RunRow): Run {
  return { runId, threadId, host, pid, startedAt: new Date(startedAt) };
}

function isPlainRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}

function turnGone(id: string): TurnsError {
  return new TurnsError("CHECKPOINT_NOT_FOUND", {
    problem: `This database has no turn ${describe(id)}.`,
    remedy: "saver.turns.list(threadId) shows which there are.",
    data: { id },
  });
}
