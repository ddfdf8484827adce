import { z } from "zod";
import { checkedOptions } from "../options";
import { type Page, pageOf, type PageOptions, seqPage } from "../page";
import { checkedArgument } from "../run-config";
import type { RewindCounts, RewindRow } from "../store/store";
import { rewindAttributes, storeSpan } from "../tracing";
import type { CheckpointRewindRequest, CompensationReport, FinishRequest, RewindReport, RewindRequest } from "./plan";
import type { RewindParts as Parts } from "./rewind";
import type { Undos } from "./undos";

/** A rewind on record. */
export interface Rewind {
  id: string;
  threadId: string;
  /** The task that the thread was rewound to. */
  toTask: string;
  /** The newest row that stayed. Everything after it was removed. */
  targetSeq: number;
  /** The rewind's own position in the order of everything on its thread. */
  seq: number;
  /** Whether the removed rows were kept, so that the rewind can be taken back. */
  archived: boolean;
  createdAt: Date;
  takenBackAt: Date | undefined;
  /** `undoing`: begun and not finished. Effects after its target are being undone, and nothing has been deleted. */
  status: "undoing" | "done" | "abandoned";
  /** Undefined for a rewind that a person asked for. */
  reason: string | undefined;
}

/** @internal */
export interface RewindParts extends Parts {
  /** Returns the space of deleted rows, in the background. */
  space: { later(): void };
  /** Keeps the database open during a drain until the returned function is called. */
  keepOpen: (threadId: string | undefined) => () => void;
}

/** Loaded when it's asked for: importing the root has to be quick (S8.8). */
const rewinding = () => import("./rewind");
const rewindToTakeBack = () => z.strictObject({ rewindId: z.string(), despiteUndone: z.boolean().optional() });

/** The rewinds of threads: those on record, unfinished ones, and those that can be taken back: `saver.rewinds`. */
export class Rewinds {
  readonly #parts: RewindParts;

  /** @internal */
  constructor(parts: RewindParts) {
    this.#parts = parts;
  }

  /** Lists the rewinds of a thread, oldest first, including those taken back. @throws {TurnsError} INVALID_OPTION */
  async list(threadId: string, options: PageOptions = {}): Promise<Page<Rewind>> {
    const { after = -1, limit } = checkedOptions(seqPage, options);
    const rows = await this.#parts.store.listRewinds(checkedArgument(threadId, "threadId", "rewinds.list"));
    return pageOf(rows.filter(({ seq }) => seq > after).map(toRewind), limit, ({ seq }) => seq);
  }

  /** Returns the unfinished rewind of a thread. The thread doesn't run until the rewind is finished or abandoned. */
  async unfinished(threadId: string): Promise<Rewind | undefined> {
    const row = await this.#parts.store.unfinishedRewind(checkedArgument(threadId, "threadId", "rewinds.unfinished"));
    return row && toRewind(row);
  }

  /** Continues the {@link unfinished} rewind of a thread. @returns undefined if there is none @throws as `saver.rewind` */
  async finish(request: FinishRequest, undos?: Undos): Promise<RewindReport | undefined> {
    return rewound(this.#parts, request, async () => (await rewinding()).finishRewind(this.#parts, request, undos));
  }

  /**
   * Abandons an unfinished rewind. Nothing is deleted. What it undid stays marked as undone. If its node runs again, it does that
   * again with another key.
   *
   * @throws {TurnsError} INVALID_OPTION, REWIND_NOT_FOUND; REWIND_CONFLICT if it isn't unfinished; THREAD_RUNNING while somebody
   *   is doing it; EFFECT_IN_DOUBT while nobody knows whether one of its undos ran
   */
  async abandon(rewindId: string): Promise<void> {
    const checked = checkedOptions(rewindToTakeBack, { rewindId });
    await (await rewinding()).abandonRewind(this.#parts, checked.rewindId);
  }

  /**
   * Takes a rewind back, if the thread is still as the rewind left it.
   *
   * @param options.despiteUndone also if it undid effects: their rows are restored marked as undone, and they stay undone
   * @returns how many rows were restored, by kind
   * @throws {TurnsError} INVALID_OPTION, REWIND_NOT_FOUND, REWIND_CONFLICT, REWIND_UNFINISHED, THREAD_RUNNING; then nothing has
   *   changed
   */
  async takeBack(rewindId: string, options: { despiteUndone?: boolean } = {}): Promise<RewindCounts> {
    const checked = checkedOptions(rewindToTakeBack, { rewindId, ...options });
    const report = await (await rewinding()).takeBackRewind(this.#parts, checked.rewindId, checked.despiteUndone);
    this.#parts.events.emit("rewind_taken_back", report);
    return report.restored;
  }

  /**
   * Reports what a rewind to a task would have to undo, and whether the undos cover it (S3.5).
   *
   * @throws {TurnsError} INVALID_OPTION, THREAD_NOT_FOUND, UNKNOWN_TASK; CHECKPOINT_NOT_FOUND for a task whose checkpoints were
   *   pruned
   */
  async compensationReport(request: Pick<RewindRequest, "threadId" | "toTask">, undos?: Undos): Promise<CompensationReport> {
    return (await rewinding()).compensationReport(this.#parts, request, undos);
  }

  /**
   * Like `saver.rewind`, but to the place where a checkpoint was saved, before any node ran from it. The reason is recorded. The
   * nodes that ran from the checkpoint run again.
   *
   * @throws {TurnsError} as `saver.rewind`; CHECKPOINT_NOT_FOUND if there is no such checkpoint
   */
  async toCheckpoint(request: CheckpointRewindRequest, undos?: Undos): Promise<RewindReport> {
    return rewound(this.#parts, request, async () => (await rewinding()).rewindToCheckpoint(this.#parts, request, undos));
  }
}

/** Runs a rewind within a span and reports it. @internal */
export async function rewound<R extends RewindReport | undefined>(
  { store, events, space, keepOpen }: RewindParts,
  request: { threadId?: string },
  work: () => Promise<R>,
): Promise<R> {
  const finished = keepOpen((request as { threadId?: string } | undefined)?.threadId);
  const report = await storeSpan(store, "rewind", "langgraph_checkpoints", () => rewindAttributes(request), work).finally(
    finished,
  );
  if (report?.rewindId !== undefined) events.emit("rewind", report);
  if (report?.rewindId !== undefined && !report.archived) space.later();
  return report;
}

function toRewind({ targetTaskId: toTask, createdAt, takenBackAt, ...row }: RewindRow): Rewind {
  const { id, threadId, targetSeq, seq, archived, status, reason } = row;
  const times = { createdAt: new Date(createdAt), takenBackAt: takenBackAt === undefined ? undefined : new Date(takenBackAt) };
  return { id, threadId, toTask, targetSeq, seq, archived, ...times, status, reason };
}
