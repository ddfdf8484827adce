import { basename, resolve } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { z } from "zod";
import { describe, TurnsError } from "../errors";
import { checkedOptions, functionSchema } from "../options";
import type { TurnSaver } from "../saver";
import { inTurn, NotSynced, type ReadFile, readWhole, removeLeftBehind, replaceWhole, targetOf } from "./atomic-file";
import { type FollowOptions, followThread, type ProgressFollower } from "./follow";
import { type FromThreadOptions, progressOfThread } from "./from-thread";
import { Malformed, malformedFile } from "./markdown";
import { type ParsedFile, parseFile } from "./parse";
import { changeSchema, failureLine, keepingNotes, type PhaseChange, tokensSchema, withFailure, withPhase } from "./phase-changes";
import {
  addedTokens,
  checkedProgress,
  type Phase,
  type PhaseTokens,
  type Progress,
  type ResumePoint,
  resumePointOf,
} from "./progress";
import { renderInto, renderProgress } from "./render";

/** Options of a {@link CheckpointFile}. */
export interface CheckpointFileOptions {
  /** Source of the current time. */
  clock?: () => Date;
}

const pathSchema = z.strictObject({
  path: z.string().refine((path) => path !== "" && !path.includes("\0"), "must be the path of a file"),
});
const optionsSchema = z.strictObject({
  clock: functionSchema<() => Date>("must be a function that returns a Date").default(() => () => new Date()),
});
const completionSchema = changeSchema.omit({ status: true });
const reasonSchema = z.strictObject({ reason: z.string() });
const OLD = "Look at the file and its folder, and whether the disk is full; what was there before still is.";
const NEW = "The file is the new one; a power cut might bring the former one back. Check the disk and its file system.";
/** How often to read again if other processes keep changing the file. */
const TRIES = 20;

/**
 * CHECKPOINT.md: the progress of a thread, for people to read and to write into (requirement S5).
 *
 * Every change replaces the whole file atomically, and what people wrote stays where it is. Changes from one process are made one
 * after another, no matter which objects and links they use. A change that another process makes at the same moment is noticed
 * and kept, except in the instant of the rename itself.
 *
 * Every method throws a {@link TurnsError}: CHECKPOINT_FILE_MALFORMED naming line and problem, CHECKPOINT_FILE_UNAVAILABLE,
 * INVALID_OPTION. The file is then unchanged. Exception: if the disk couldn't confirm the new file, CHECKPOINT_FILE_UNAVAILABLE
 * says that it is in place.
 */
export class CheckpointFile {
  readonly path: string;
  readonly #name: string;
  readonly #clock: () => Date;
  #tidied = false;

  /** @throws {TurnsError} INVALID_OPTION */
  constructor(path: string, options: CheckpointFileOptions = {}) {
    this.path = resolve(checkedOptions(pathSchema, { path }).path);
    this.#name = basename(this.path);
    this.#clock = checkedOptions(optionsSchema, options).clock;
  }

  /**
   * Builds the progress of a thread from its turns. There's a phase for each task or, with `by: "node"`, for each node at the top
   * of the graph (S5.6). An unknown thread has no phases.
   *
   * @throws {TurnsError} INVALID_OPTION, and what the saver throws
   */
  static async fromThread(saver: TurnSaver, threadId: string, options: FromThreadOptions = {}): Promise<Progress> {
    return progressOfThread(saver, threadId, options);
  }

  /**
   * Keeps a file up to date while runs work on a thread, until you close the follower. It neither slows a run nor fails it:
   * errors are logged, and the write is tried again after the next event.
   *
   * @throws {TurnsError} INVALID_OPTION
   */
  static follow(saver: TurnSaver, threadId: string, path: string, options: FollowOptions = {}): ProgressFollower {
    const file = new CheckpointFile(path);
    return followThread(saver, threadId, options, async (by) => {
      await file.refresh(saver, threadId, by);
    });
  }

  /** Reads the progress in the file; null if there's no file. */
  async read(): Promise<Progress | null> {
    const target = await this.#reaching(() => targetOf(this.path));
    const found = await this.#reaching(() => readWhole(target));
    return found === undefined ? null : this.#parsed(found).progress;
  }

  /**
   * Makes the file show this progress. Phases that no longer exist lose their sections, but what people wrote there stays.
   *
   * @throws {TurnsError} INVALID_OPTION for an invalid progress
   */
  async write(progress: Progress): Promise<void> {
    const wanted = checkedProgress(progress);
    await this.#change(() => wanted);
  }

  /** Writes {@link fromThread}, and keeps the notes in the file. @returns the file's progress now */
  async refresh(saver: TurnSaver, threadId: string, options: FromThreadOptions = {}): Promise<Progress> {
    const fresh = await progressOfThread(saver, threadId, options);
    return this.#change((old) => (old?.threadId === threadId ? keepingNotes(fresh, old) : fresh));
  }

  /**
   * Changes one phase. The times follow its status unless you give them.
   *
   * @returns the file's progress now
   * @throws {TurnsError} UNKNOWN_PHASE; CHECKPOINT_FILE_UNAVAILABLE also if there's no file yet
   */
  async updatePhase(id: string, change: PhaseChange): Promise<Progress> {
    const given = checkedOptions(changeSchema, change);
    return this.#changePhase(id, () => given);
  }

  /** Marks a phase as completed, now unless `endedAt` is given. @returns and throws as {@link updatePhase} */
  async markPhaseComplete(id: string, change: Omit<PhaseChange, "status"> = {}): Promise<Progress> {
    const given = checkedOptions(completionSchema, change);
    return this.#changePhase(id, ({ notes }) => ({
      ...given,
      notes: withFailure(given.notes ?? notes, ""),
      status: "completed",
    }));
  }

  /** Marks a phase as failed and puts the reason into its notes, as one line. @returns and throws as {@link updatePhase} */
  async markPhaseFailed(id: string, reason: string, change: Omit<PhaseChange, "status"> = {}): Promise<Progress> {
    const line = failureLine(checkedOptions(reasonSchema, { reason }).reason);
    const given = checkedOptions(completionSchema, change);
    return this.#changePhase(id, ({ notes }) => ({ ...given, notes: withFailure(given.notes ?? notes, line), status: "failed" }));
  }

  /** Adds tokens to what a phase has used. @returns and throws as {@link updatePhase} */
  async logTokens(id: string, tokens: Partial<PhaseTokens>): Promise<Progress> {
    const more = checkedOptions(tokensSchema, tokens);
    return this.#changePhase(id, (phase) => ({ tokens: addedTokens(phase.tokens, more) }));
  }

  /** Says where the work can continue, according to the phases; null if there's no file (S5.4). */
  async getResumePoint(): Promise<ResumePoint | null> {
    const progress = await this.read();
    return progress === null ? null : resumePointOf(progress);
  }

  #changePhase(id: string, next: (phase: Phase) => PhaseChange): Promise<Progress> {
    return this.#change((old) => {
      if (old === null) throw this.#unavailable("doesn't exist");
      return withPhase(old, id, this.#clock(), next);
    }, false);
  }

  /**
   * Reads, changes and replaces the file, and starts again if somebody else changed it in between.
   *
   * @param overEmpty whether to treat a file without any text like a missing one: nothing is lost by replacing it
   */
  async #change(next: (old: Progress | null) => Progress, overEmpty = true): Promise<Progress> {
    const target = await this.#reaching(() => targetOf(this.path));
    return inTurn(target, async () => {
      if (!this.#tidied) await removeLeftBehind(target).catch(() => undefined);
      this.#tidied = true;
      for (let tries = 0; tries < TRIES; tries += 1) {
        const found = await this.#reaching(() => readWhole(target));
        const old = found === undefined || (overEmpty && found.bytes.toString().trim() === "") ? null : this.#parsed(found);
        const progress = checkedProgress(next(old?.progress ?? null));
        if (old !== null && isDeepStrictEqual(old.progress, progress)) return progress;
        const text = old === null ? renderProgress(progress) : renderInto(old, progress, this.#name);
        if (await this.#reaching(() => replaceWhole(target, text, found))) return progress;
      }
      throw this.#unavailable(`was changed by others ${TRIES} times while it was written`);
    });
  }

  /** Refuses bytes that aren't text, since writing them again would change them. Nothing is lost. */
  #parsed({ bytes }: ReadFile): ParsedFile {
    const decoded = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
    if (!bytes.equals(Buffer.from(decoded))) {
      const line = firstDifference(bytes, Buffer.from(decoded));
      throw malformedFile(this.#name, new Malformed(line, "text in UTF-8", "bytes that are none"));
    }
    return parseFile(decoded, this.#name);
  }

  async #reaching<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (error instanceof NotSynced)
        throw this.#unavailable(`may not have reached the disk: ${error.message}`, error.cause, NEW);
      const { code, message } = error as { code?: unknown; message?: unknown };
      throw this.#unavailable(`can't be read or written: ${String(code ?? message)}`, error);
    }
  }

  #unavailable(problem: string, cause?: unknown, remedy = OLD): TurnsError {
    return new TurnsError("CHECKPOINT_FILE_UNAVAILABLE", {
      problem: `The progress file ${describe(this.#name)} ${problem}.`,
      remedy,
      data: { path: this.path },
      cause,
    });
  }
}

/** The index of the first line in which two texts differ. */
function firstDifference(left: Buffer, right: Buffer): number {
  let line = 0;
  for (let index = 0; left[index] === right[index] && index < left.length; index += 1) if (left[index] === 10) line += 1;
  return line;
}
