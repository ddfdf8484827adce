import type { EncodeOptions } from "../codec";
import { TurnsError } from "../errors";
import { failpoint, type FailpointDetails } from "../failpoints";
import type { EffectEvent, SaverEmitter } from "../events";
import type { ResolvedOptions } from "../options";
import { type EffectRow, runOf, spotOf } from "../store/effects";
import type { EffectBeginning, NewEffect, PackedText, Store } from "../store/store";
import type { TaskNames } from "../run-config";
import type { Attempt } from "../turns/node-task";
import { type EffectTry, holderOf, isHeldElsewhere, runningHere, toPublicEffect, tryOf } from "./types";
import type { EffectContent } from "./content";
import type { JournalOfTry } from "./transactional";
import { answerOf, type CheckedEffect, type EffectPlace, type ErrorOutcome, type Found } from "./options";
import {
  changed,
  deletedMeanwhile,
  ended,
  gone,
  inDoubt,
  inputNotSaved,
  lostRun,
  notRecorded,
  overruled,
  reasonOf,
  resultNotSaved,
  unclear,
} from "./failures";

interface JournalParts {
  store: Store;
  content: EffectContent;
  options: Pick<ResolvedOptions, "createId" | "clock" | "logger" | "classInstances">;
  events: SaverEmitter;
  attemptOf: (runId: string | undefined, nodeTaskId: string) => Attempt | undefined;
  /** Is told of each call. */
  called: (attempt: Attempt) => void;
  namesOf: (threadId: string) => TaskNames;
  /** Whether this journal is a saver's. */
  isOf: (saver: unknown) => boolean;
}

/** What is known of one attempt of a node task. */
interface Course {
  /** How many effects of each name were called. */
  counts: Map<string, number>;
  /** Which row each call has taken, by the call's id. */
  taken: Map<string, string>;
  /** Rows of effects that failed, or whose outcome isn't known. */
  unhappy: Set<string>;
  /** By name or row, refusals that leave it unknown what happened. While there is one, the node must not succeed. */
  refused: Map<string, TurnsError>;
}

/** A call of `effect()`, numbered. */
interface Call {
  name: string;
  label: string;
  labelled: boolean;
  place: EffectPlace;
  attempt: Attempt;
  course: Course;
}

interface Outcome {
  status: "done" | "failed" | "final" | "intent";
  outcome: PackedText | undefined;
  settledBy: string | undefined;
}

/** Performs an effect. Only transactional ones need more than the key. */
export type Doing = (key: string, effect: EffectTry & EncodeOptions & { journal: JournalOfTry }) => unknown;

/** What a call asks for. */
interface Work {
  effect: NewEffect;
  fn: Doing;
  options: CheckedEffect;
}

/** The effect happened or may have happened, and its node doesn't know the outcome. */
const UNSETTLED = ["EFFECT_IN_DOUBT", "EFFECT_CHANGED", "EFFECT_NOT_RECORDED", "UNSERIALIZABLE_VALUE"] as const;

/**
 * The journal of side effects. Its promise: a completed effect never runs again, and one with an unknown outcome never runs again
 * silently. So `fn` is called only after this very call has committed its intent, and no default repeats an effect in doubt, not
 * even a LangGraph retry.
 */
export class EffectJournal {
  /** Follows each attempt, so that a re-run numbers its effects the same way. */
  readonly #courses = new WeakMap<object, Course>();
  /** Outcomes that couldn't be committed, with their effects. */
  readonly #unsaved = new Map<string, { row: EffectRow; outcome: Outcome }>();

  constructor(private readonly parts: JournalParts) {}

  /**
   * @throws {TurnsError} EFFECT_OUTSIDE_NODE for an attempt that has finished. One that ran into its timeout must not act any
   *   more, since its node may be running again. Nor may work that a node didn't await, or a graph that such work starts after
   *   its run was over
   */
  called(name: string, { id }: CheckedEffect, place: EffectPlace): Call {
    const attempt = this.parts.attemptOf(place.runId, place.nodeTaskId);
    if (attempt === undefined || attempt.run.isLate) throw ended(name, place);
    this.parts.called(attempt);
    const course = this.#courseOf(attempt);
    const ordinal = course.counts.get(name) ?? 0;
    if (id === undefined) course.counts.set(name, ordinal + 1);
    const label = id === undefined ? `#${ordinal}` : `id:${id}`;
    return { name, label, labelled: id !== undefined, place, attempt, course };
  }

  async run(call: Call, fn: Doing, options: CheckedEffect): Promise<unknown> {
    let row: EffectRow | undefined;
    try {
      const work = { effect: this.#newEffect(call, options), fn, options };
      const beginning = await this.#begin(work);
      row = beginning.row;
      const result = await this.#run(beginning, work);
      this.#forgive(call, row.id);
      return result;
    } catch (error) {
      if (row !== undefined) this.#remember(call, row.id, error);
      throw error;
    }
  }

  /**
   * The error that a node must fail with although it succeeded: it caught an error saying that an outcome is unknown, or its
   * ToolNode told a model. Continuing from there could repeat the side effect.
   */
  swallowed(attempt: Attempt): TurnsError | undefined {
    return [...this.#courseOf(attempt).refused.values()][0];
  }

  #courseOf(attempt: object): Course {
    const course = this.#courses.get(attempt) ?? { counts: new Map(), taken: new Map(), unhappy: new Set(), refused: new Map() };
    this.#courses.set(attempt, course);
    return course;
  }

  #remember({ attempt, course }: Call, effectId: string, error: unknown): void {
    course.unhappy.add(effectId);
    if (!TurnsError.is(error) || !UNSETTLED.some((code) => code === error.code)) return;
    for (const around of attemptsAround(attempt)) this.#courseOf(around).refused.set(effectId, error);
  }

  #forgive({ attempt, course }: Call, effectId: string): void {
    course.unhappy.delete(effectId);
    for (const around of attemptsAround(attempt)) this.#courseOf(around).refused.delete(effectId);
  }

  async #run({ kind, row }: EffectBeginning, work: Work): Promise<unknown> {
    if (kind === "lost") throw lostRun(row);
    if (kind === "changed") throw changed(row);
    if (kind === "unclear") throw row.status === "intent" ? inDoubt(row) : unclear(row);
    if (kind === "begun") return this.#do(row, work);
    if (row.status === "intent") return this.#settleDoubt(row, work);
    this.#tell(row, "replayed");
    return this.#outcomeOf(row);
  }

  /** The outcome of a finished effect. */
  async #outcomeOf(row: EffectRow): Promise<unknown> {
    const value = (await this.parts.content.outcomeOf(row)) as
      { result?: unknown; error?: unknown; unsaved?: unknown } | undefined;
    if (row.status === "final") throw value?.error;
    if (typeof value?.unsaved === "string") throw resultNotSaved(row, value.unsaved);
    return value?.result;
  }

  #newEffect(call: Call, { undo, idempotent, onInputChange }: CheckedEffect): NewEffect {
    const { options, namesOf } = this.parts;
    const { place, attempt } = call;
    const around = attemptsAround(attempt);
    const outermost = around[0] ?? attempt;
    const attemptIds = around.map(({ runId }) => runId);
    return {
      id: options.createId(),
      threadId: place.threadId,
      sawDeletion: attempt.threadId === place.threadId ? attempt.run.sawDeletion : undefined,
      lease: attempt.run.lease,
      claim: { ...namesOf(place.threadId), kind: "resume", name: attempt.runId },
      nodeNs: place.nodeNs,
      nodeTaskId: place.nodeTaskId,
      spot: spotOf(around),
      anchor: place.rootCheckpointId,
      innerAnchors: place.innerCheckpointIds,
      // A graph that a node runs on another thread has its roots on the outermost graph's thread.
      rootThreadId: outermost.threadId,
      run: runOf(outermost.nodeTaskId, attemptIds),
      graphRun: attempt.run.runId,
      name: call.name,
      label: call.label,
      labelled: call.labelled,
      taken: call.course.taken,
      unhappy: [...call.course.unhappy],
      anyInput: onInputChange === "accept",
      idempotent,
      undo: undo === false ? "" : undo,
      input: undefined,
      process: holderOf(),
      startedAt: options.clock().toISOString(),
    };
  }

  async #begin({ effect, options: { input } }: Work): Promise<EffectBeginning> {
    const { store, content } = this.parts;
    const what = `the input of effect ${JSON.stringify(effect.name)}`;
    try {
      return await content.packed(effect.threadId, input, what, (packed) =>
        store.beginEffect({ ...effect, input: input === undefined ? undefined : packed }),
      );
    } catch (error) {
      throw TurnsError.is(error, "UNSERIALIZABLE_VALUE") ? inputNotSaved(effect, error) : error;
    }
  }

  /** Its intent is committed, by this call. */
  #do(row: EffectRow, work: Work): Promise<unknown> {
    const doing = this.#attempt(row, work).finally(() => runningHere.delete(row.id));
    runningHere.set(row.id, doing);
    return doing;
  }

  async #attempt(row: EffectRow, work: Work): Promise<unknown> {
    this.#tell(row, "begun");
    const { threadId, nodeTaskId, name: effect, key } = row;
    const details = (): FailpointDetails => ({ threadId, nodeTaskId, node: row.nodeName, effect, key });
    let result: unknown;
    let recorded: EffectRow | undefined;
    const journal = this.#journalOf(row, (done) => (recorded = done));
    try {
      failpoint("effect-body.before", details);
      result = await work.fn(row.key, { ...tryOf(row), classInstances: this.parts.options.classInstances, journal });
      failpoint("effect-body.after", details);
    } catch (error) {
      await this.#failed(row, error, work);
      throw error;
    }
    if (recorded === undefined) await this.#done(row, work, result, undefined);
    else this.#tell(recorded, "done");
    return result;
  }

  /** For a transaction that does the effect in the database of this journal. */
  #journalOf(row: EffectRow, recorded: (done: EffectRow) => void): JournalOfTry {
    const { store, content, options, isOf } = this.parts;
    let done: EffectRow | undefined;
    return {
      isOf,
      probe: store.effectProbe,
      statement: (result) => {
        // A retry of an effect in doubt moves its row.
        const outcome = row.triedSeq === undefined ? content.inOnePiece(result, options) : undefined;
        if (outcome === undefined) return undefined;
        const endedAt = options.clock().toISOString();
        done = { ...row, status: "done", outcome: outcome.text, endedAt, settledBy: undefined };
        return store.effectRecord(row, outcome.text, endedAt);
      },
      recorded: () => {
        if (done !== undefined) recorded(done);
      },
    };
  }

  async #failed(row: EffectRow, error: unknown, work: Work): Promise<void> {
    const { content } = this.parts;
    const kind = errorOutcome(work.options.onError, error);
    const status = kind === "retryable" ? "failed" : kind === "final" ? "final" : "intent";
    const outcome = await content.ofError(row.threadId, error);
    try {
      await this.#settle(row, work, { status, outcome, settledBy: undefined });
    } catch (cause) {
      // The node should see the effect's own error. Without a record, the effect is in doubt.
      const { threadId, id: effectId, name } = row;
      this.parts.options.logger.error(
        { threadId, effectId, name, error: String(cause) },
        "the failure of an effect could not be saved",
      );
    }
    if (kind === "unknown") throw inDoubt(row, "its error doesn't tell", error, work.options.probe !== undefined);
  }

  async #done(row: EffectRow, work: Work, result: unknown, settledBy: string | undefined): Promise<void> {
    const packed = await this.parts.content.ofResult(row.threadId, result);
    await this.#settle(row, work, { status: "done", outcome: packed.text, settledBy });
    if (packed.refused !== undefined) throw resultNotSaved(row, reasonOf(packed.refused), packed.refused);
  }

  async #settle(row: EffectRow, work: Work, outcome: Outcome): Promise<void> {
    const { store, options } = this.parts;
    this.#unsaved.set(row.id, { row, outcome });
    let settled: EffectRow | undefined;
    try {
      settled = await store.settleEffect(row.id, { ...outcome, seen: row, endedAt: options.clock().toISOString() });
    } catch (cause) {
      throw notRecorded(row, outcome.status, cause);
    }
    this.#unsaved.delete(row.id);
    if (settled === undefined) throw await this.#goneError(row, work);
    if (settled.status !== outcome.status || (settled.tries !== row.tries && settled.status !== "done"))
      throw overruled(row, settled);
    this.#tell(settled, settled.status === "intent" ? "in-doubt" : settled.status === "done" ? "done" : "failed");
  }

  /** What removed the intent: a deletion of its thread since the run started, or a rewind. */
  async #goneError(row: EffectRow, { effect: { threadId, sawDeletion = 0 } }: Work): Promise<TurnsError> {
    const deletedAt = await this.parts.store.deletionOf(threadId);
    return deletedAt > sawDeletion ? deletedMeanwhile(row, deletedAt) : gone(row);
  }

  /**
   * Settles an intent without a result. In this order: we know it ourselves; its completion row or its probe is asked; the
   * receiver knows the key; a person.
   */
  async #settleDoubt(row: EffectRow, work: Work): Promise<unknown> {
    const { options } = work;
    const running = runningHere.get(row.id);
    if (running !== undefined) return running;
    const unsaved = this.#unsaved.get(row.id);
    if (unsaved?.row.tries === row.tries) return this.#saveLate(unsaved.row, unsaved.outcome, work);
    this.#tell(row, "in-doubt");
    const { find, probe } = options;
    // A completion row is the truth while others are running it too.
    if (isHeldElsewhere(row.process) && find === undefined) throw runningElsewhere(row);
    if (find !== undefined) return this.#ask(row, work, () => find(tryOf(row)));
    if (probe !== undefined) return this.#ask(row, work, () => answerOf(probe(row.key)));
    // The earlier try must have carried the key, and this one must too.
    if (options.idempotent && row.idempotent) return this.#again(row, work, false);
    throw inDoubt(row);
  }

  async #saveLate(row: EffectRow, outcome: Outcome, work: Work): Promise<unknown> {
    await this.#settle(row, work, outcome);
    const settled = await this.parts.store.getEffect(row.id);
    if (settled === undefined) throw await this.#goneError(row, work);
    if (settled.status === "failed") return this.#again(settled, work, false);
    if (settled.status === "intent") throw inDoubt(settled);
    return this.#outcomeOf(settled);
  }

  async #ask(row: EffectRow, work: Work, find: () => Promise<Found>): Promise<unknown> {
    let found: Found;
    try {
      found = await find();
    } catch (error) {
      throw inDoubt(row, work.options.find === undefined ? "its probe failed" : "its database didn't answer", error);
    }
    if (found === undefined && isHeldElsewhere(row.process)) throw runningElsewhere(row);
    if (found === undefined) return this.#again(row, work, true);
    // Many clients say null for "not found", and others have it for a result: acting on either reading could be wrong.
    if (found === null) throw inDoubt(row, "its probe answered null, which is neither a result nor undefined");
    await this.#done(row, work, found.result, "probe");
    return found.result;
  }

  /** @param surelyNot whether it is known, beyond what its row says, that it didn't happen */
  async #again(row: EffectRow, work: Work, surelyNot: boolean): Promise<unknown> {
    const { store, options } = this.parts;
    const call = { ...work.effect, startedAt: options.clock().toISOString() };
    const begun = await store.retryEffect(row, call, surelyNot);
    if (begun === undefined) throw inDoubt(row, "another run has just taken it up");
    return this.#do(begun, work);
  }

  #tell(row: EffectRow, what: EffectEvent["what"]): void {
    const effect = toPublicEffect(row, what === "begun");
    this.parts.events.emit("effect", { what, effect });
  }
}

const runningElsewhere = (row: EffectRow): TurnsError =>
  inDoubt(row, `process ${row.process.split(" ", 2).join(" on ")} is running it just now`);

/** The attempts that contain this one, outermost first, and itself. */
function attemptsAround(attempt: Attempt): Attempt[] {
  const around = [attempt];
  for (let within = attempt.within; within !== undefined; within = within.within) around.unshift(within);
  return around;
}

/** Errors that break off a request after it may have been sent: the outcome is unknown. */
const BROKEN_OFF =
  /^(ETIMEDOUT|ESOCKETTIMEDOUT|ECONNRESET|ECONNABORTED|EPIPE|ERR_STREAM_PREMATURE_CLOSE|UND_ERR_(?!CONNECT_TIMEOUT).+)$/;
const ABORTED: readonly unknown[] = ["AbortError", "TimeoutError"];
const LONGEST_CHAIN = 10;

/** What the function's error says about the side effect. A classification that throws says nothing. */
function errorOutcome(onError: ErrorOutcome | ((error: unknown) => ErrorOutcome) | undefined, error: unknown): ErrorOutcome {
  if (onError === undefined) return isBrokenOff(error) ? "unknown" : "retryable";
  if (typeof onError !== "function") return onError;
  try {
    const outcome = onError(error);
    return outcome === "retryable" || outcome === "final" ? outcome : "unknown";
  } catch {
    return "unknown";
  }
}

/**
 * A timeout, an abort or a lost connection, here or as the cause. A connection that was never made doesn't count: nothing was
 * sent.
 */
function isBrokenOff(error: unknown): boolean {
  let link = error as { name?: unknown; code?: unknown; cause?: unknown } | null | undefined;
  for (let depth = 0; typeof link === "object" && link !== null && depth < LONGEST_CHAIN; depth++) {
    if (ABORTED.includes(link.name) || (typeof link.code === "string" && BROKEN_OFF.test(link.code))) return true;
    link = link.cause as typeof link;
  }
  return false;
}
