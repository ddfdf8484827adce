import type { RunnableConfig } from "@langchain/core/runnables";
import { ERROR, INTERRUPT, type PendingWrite, WRITES_IDX_MAP } from "@langchain/langgraph-checkpoint";
import type { ResolvedOptions } from "../options";
import { refuseIllFormed } from "../store/refusals";
import {
  addressOf,
  checkedId,
  checkedTaskPath,
  type CheckpointAddress,
  claimOfWrites,
  nodeInPath,
  refuseNoWrites,
  type RunNames,
  type RunStart,
  type RunStarts,
  timeOfSave,
} from "../run-config";
import type { UserSerde } from "../serde";
import type { Chunk, NewWrite, NewWrites, PackedText, Store, TaskClaim, TurnStatus } from "../store/store";
import { isDerivedId } from "../system";
import type { Draining } from "../turns/draining";
import type { EarlyOutcomes, SeenCheckpoints } from "../turns/handed-in";
import { isRecorded, type TurnRecorder } from "../turns/recorder";
import type { Redaction } from "../turns/redaction";
import { namingChannel, type Values } from "../values";
import type { SaveProgress } from "./save-progress";

type Settlement = NonNullable<ReturnType<typeof settlementOf>>;
type Settle = NonNullable<NewWrites["settle"]>;

/** The checkpoint that writes are based on, and the node task that they are from. */
type WritesAddress = CheckpointAddress & { nodeTaskId: string; taskPath: string };

/** What writes say before they are serialised. */
interface WritesOutline {
  readonly at: WritesAddress;
  readonly start: RunStart;
  readonly claim: TaskClaim;
  readonly settlement: Settlement | undefined;
}

interface WritesSavesParts {
  options: ResolvedOptions;
  recorder: TurnRecorder;
  store: Store;
  values: Values;
  serde: UserSerde | undefined;
  redaction: Redaction;
  runNames: RunNames;
  runStarts: RunStarts;
  seen: SeenCheckpoints;
  early: EarlyOutcomes;
  progress: SaveProgress;
  /** It waits for saves in progress before it closes the database. */
  draining: Draining;
}

/** LangGraph's `putWrites`: saves what nodes return. */
export class WritesSaves {
  readonly #updates = new UpdatesAtOnce();
  readonly #parts: WritesSavesParts;

  constructor(parts: WritesSavesParts) {
    this.#parts = parts;
  }

  /**
   * Serialises the writes and hands them to the store before it waits for anything.
   *
   * @param taskPath the task's position in its superstep
   * @throws {TurnsError} INVALID_CONFIG, INVALID_CHECKPOINT; and what {@link SaveProgress.failed} throws
   */
  async putWrites(config: RunnableConfig, given: PendingWrite[], nodeTaskId: string, taskPath?: string): Promise<void> {
    const { threadId, ns, checkpointId } = addressOf(config, "putWrites");
    const at = {
      threadId,
      ns,
      checkpointId: checkedId(checkpointId, "checkpoint_id", "putWrites"),
      nodeTaskId: checkedId(nodeTaskId, "task id", "putWrites"),
      taskPath: checkedTaskPath(taskPath),
    };
    refuseNoWrites(given);
    const { recorder, seen, early, progress, draining, serde } = this.#parts;
    if (recorder.wasStopped(nodeTaskId) || progress.leavesOut(config, threadId)) return;
    const isRun = isRecorded(config.callbacks, recorder);
    const all = this.#updates.joined(config, at.checkpointId, at, given);
    const writes = recorder.endedInDoubt(nodeTaskId) ? withoutHandler(all) : all;
    const done = draining.keepOpen();
    const over = progress.writesCome(at, nodeTaskId, given, isRun);
    try {
      progress.refuse(at, at.checkpointId);
      // Before the checkpoint that they are based on, and so before the Thought of their node task.
      const isEarly = !isRun && !seen.has(at);
      const outline = this.#outline(config, at, writes);
      const saving =
        serde === undefined
          ? this.#commit(config, isRun, isEarly, outline, writes)
          : serde.inOrder(serde.writes(writes), (stored) => this.#commit(config, isRun, isEarly, outline, stored));
      const saved = saving instanceof Promise ? await saving : saving;
      // Its checkpoint exists and had only been forgotten.
      if (isEarly && saved.turn !== undefined) early.take(at);
      progress.writesSaved(threadId, saved);
      over?.();
    } catch (error) {
      const told = progress.failed(config, at, error);
      over?.();
      await told;
    } finally {
      done();
    }
  }

  #commit(
    config: RunnableConfig,
    isRun: boolean,
    isEarly: boolean,
    outline: WritesOutline,
    writes: readonly PendingWrite[],
  ): ReturnType<Store["putWrites"]> {
    const request = this.#request(config, outline, writes);
    const { nodeTaskId, createdAt, settle } = request;
    // A failed task still has to run: the next run does it, and with durability "exit" reports nothing.
    if (isEarly && settle !== undefined && settle.status !== "error")
      this.#parts.early.add(outline.at, { nodeTaskId, createdAt, settle });
    return this.#parts.store.putWrites(request, isRun ? "boundary" : "now");
  }

  /** To be called when the writes are handed in. @throws {TurnsError} INVALID_CONFIG */
  #outline(config: RunnableConfig, at: WritesAddress, writes: readonly PendingWrite[]): WritesOutline {
    const { runNames, runStarts } = this.#parts;
    const settlement = settlementOf(writes);
    const start = runStarts.of(config, at);
    return { at, start, claim: claimOfWrites(runNames.remember(config, at), at, writesToKeep(writes)), settlement };
  }

  /**
   * The request to the store. Serialises everything before it returns: the caller may change its objects afterwards.
   *
   * @param writes as they were handed in, or as the user's serde encoded them
   * @throws {TurnsError} UNSERIALIZABLE_VALUE naming channel, node and path
   */
  #request(config: RunnableConfig, { at, start, claim, settlement }: WritesOutline, writes: readonly PendingWrite[]): NewWrites {
    const { options, redaction } = this.#parts;
    const kept = this.#packed(at.threadId, writesToKeep(writes), nodeInPath(at.taskPath));
    const settle = settlement && redaction.recordsTurns ? this.#settle(at, writes, kept, settlement) : undefined;
    return {
      threadId: at.threadId,
      ns: at.ns,
      checkpointId: at.checkpointId,
      sawDeletion: start.sawDeletion,
      sawEpoch: start.sawEpoch,
      lease: start.lease,
      nodeTaskId: at.nodeTaskId,
      taskPath: at.taskPath,
      rows: toRows(kept),
      claim,
      createdAt: timeOfSave(config, options.clock),
      settle,
    };
  }

  #packed(threadId: string, writes: readonly PendingWrite[], node?: string): PackedWrite[] {
    return writes.map(([channel, value]) => {
      refuseIllFormed("channel", channel);
      try {
        return { channel, packed: this.#parts.values.text(threadId, value) };
      } catch (error) {
        throw namingChannel(channel, error, node);
      }
    });
  }

  /** What becomes of the task's Action. Usually it exists already and isn't made from the writes. */
  #settle(
    { threadId, nodeTaskId }: WritesAddress,
    writes: readonly PendingWrite[],
    kept: readonly PackedWrite[],
    { status, durable }: Settlement,
  ): Settle {
    const { redaction, options } = this.#parts;
    const actionId = options.createId();
    if (redaction.keepsAll) return { status, durable, update: this.#update(threadId, writes, kept), actionId };
    const settle = { status, durable, update: undefined, actionId };
    // `redact` can't read writes that a serde has encoded.
    if (options.serde !== undefined || !redaction.asks) return settle;
    const update = redaction.copied(updateOf(writes));
    return {
      ...settle,
      redacted: ({ graphId, taskId, nodeName, nodeNs = "" }) =>
        redaction.packed({ threadId, graphId, taskId, nodeName, nodeNs, nodeTaskId, turnType: "Action", status }, update, false)
          .packed,
    };
  }

  /** Not everything that a failed task wrote is kept as writes. Its Action holds all of it, if it can be saved. */
  #update(threadId: string, writes: readonly PendingWrite[], kept: readonly PackedWrite[]): PackedText | undefined {
    if (kept.length === writes.length) return updateText(kept);
    try {
      return updateText(this.#packed(threadId, writes));
    } catch {
      return undefined;
    }
  }
}

/**
 * What several updates at once (`bulkUpdateState`) write. LangGraph 1.4 gives them all the same id, so the last would replace the
 * others. It passes the same config object with each of them; a retried update has another one.
 */
class UpdatesAtOnce {
  readonly #written = new WeakMap<RunnableConfig, PendingWrite[]>();

  /**
   * @param writes of a task; those that aren't from an update are returned as they are
   * @returns everything these updates have written so far, this time included
   */
  joined(
    config: RunnableConfig,
    checkpointId: string,
    { nodeTaskId, taskPath }: { nodeTaskId: string; taskPath: string },
    writes: PendingWrite[],
  ): PendingWrite[] {
    if (taskPath !== "" || !isDerivedId(nodeTaskId, "__interrupt__", checkpointId)) return writes;
    const all = [...(this.#written.get(config) ?? []), ...writes];
    this.#written.set(config, all);
    return all;
  }
}

/** A record with this key is escaped, so that it can't be taken for a tag of the codec. */
const MARKER = "~";
const ESCAPED = '{"~":"object","v":{';
const ERROR_SOURCE_NODE = "__error_source_node__";

/**
 * Drops the regular writes of a task that failed without an error handler. LangGraph sends them when a conditional edge throws
 * after the node's own writes. If they were stored, a resume would count the node as done and never evaluate the edge (lg#8834).
 */
function writesToKeep(writes: readonly PendingWrite[]): readonly PendingWrite[] {
  const failed = writes.some(([channel]) => channel === ERROR);
  if (!failed || writes.some(([channel]) => channel === ERROR_SOURCE_NODE)) return writes;
  return writes.filter(([channel]) => Object.hasOwn(WRITES_IDX_MAP, channel));
}

/**
 * The writes of a task whose failure its error handler must not take over. With the marker, LangGraph would count the task as
 * done: a resume would run the handler and never the node again.
 */
function withoutHandler(writes: PendingWrite[]): PendingWrite[] {
  return writes.filter(([channel]) => channel !== ERROR_SOURCE_NODE);
}

interface PackedWrite {
  readonly channel: string;
  readonly packed: PackedText;
}

/**
 * Special channels have fixed negative indices and a row each. The others are numbered by their place in the list and share one
 * row. Of two writes with one index, the later counts. A row's text is a list of [index, channel, value].
 */
function toRows(writes: readonly PackedWrite[]): NewWrite[] {
  const regular: Piece[] = [];
  const special = new Map<number, NewWrite>();
  for (const [place, { channel, packed }] of writes.entries()) {
    const idx = specialIndex(channel) ?? 0;
    const piece = { before: `[${idx < 0 ? idx : place},${JSON.stringify(channel)},`, packed, after: "]" };
    if (idx < 0) special.set(idx, { idx, entries: new JoinedText("[", [piece], "]") });
    else regular.push(piece);
  }
  return [...(regular.length > 0 ? [{ idx: 0, entries: new JoinedText("[", regular, "]") }] : []), ...special.values()];
}

interface Piece {
  readonly before: string;
  readonly packed: PackedText;
  readonly after: string;
}

/** Texts that are joined only if somebody asks for them. */
class JoinedText implements PackedText {
  constructor(
    private readonly open: string,
    private readonly pieces: readonly Piece[],
    private readonly close: string,
  ) {}

  get text(): string {
    let text = this.open;
    for (const [at, { before, packed, after }] of this.pieces.entries())
      text += `${at === 0 ? "" : ","}${before}${packed.text}${after}`;
    return text + this.close;
  }

  get parts(): readonly Chunk[] {
    const [first] = this.pieces;
    if (first !== undefined && this.pieces.length === 1) return first.packed.parts;
    return this.pieces.flatMap(({ packed }) => packed.parts);
  }
}

/**
 * The status of a task's Action, as its writes tell it. Durable means exactly that LangGraph won't run the task again: it has
 * regular writes, or an error that its handler takes over. Undefined if the writes say nothing about it (a resume value alone).
 */
function settlementOf(writes: readonly PendingWrite[]): { status: TurnStatus; durable: boolean } | undefined {
  const error = writes.find(([channel]) => channel === ERROR);
  if (error !== undefined) {
    const handled = writes.some(([channel]) => channel === ERROR_SOURCE_NODE);
    const handoff = (error[1] as { name?: unknown } | null)?.name === "ParentCommand";
    return { status: handoff ? "handoff" : "error", durable: handled };
  }
  if (writes.some(([channel]) => specialIndex(channel) === undefined)) return { status: "ok", durable: true };
  return writes.some(([channel]) => channel === INTERRUPT) ? { status: "interrupted", durable: false } : undefined;
}

/** The node's update, taken from its writes, for an Action that no recorder has seen. */
function updateOf(writes: readonly PendingWrite[]): Record<string, unknown> {
  return Object.fromEntries(writes.filter(([channel]) => isOfUpdate(channel)));
}

/** {@link updateOf} as text. */
function updateText(writes: readonly PackedWrite[]): PackedText {
  const update = new Map<string, Piece>();
  for (const { channel, packed } of writes) {
    if (isOfUpdate(channel)) update.set(channel, { before: `${JSON.stringify(channel)}:`, packed, after: "" });
  }
  const pieces = [...update.values()];
  return update.has(MARKER) ? new JoinedText(ESCAPED, pieces, "}}") : new JoinedText("{", pieces, "}");
}

function isOfUpdate(channel: string): boolean {
  return !/^(__|branch:|join:)/.test(channel);
}

function specialIndex(channel: string): number | undefined {
  return Object.hasOwn(WRITES_IDX_MAP, channel) ? WRITES_IDX_MAP[channel] : undefined;
}
