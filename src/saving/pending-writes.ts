import { ERROR, INTERRUPT, type PendingWrite, WRITES_IDX_MAP } from "@langchain/langgraph-checkpoint";
import { TurnsError } from "../errors";
import type { Chunk, NewWrite, PackedText, TurnStatus } from "../store/store";

/** A record with this key is escaped, so that it can't be taken for a tag of the codec. */
const MARKER = "~";
const ESCAPED = '{"~":"object","v":{';
const ERROR_SOURCE_NODE = "__error_source_node__";

/**
 * Drops the regular writes of a task that failed without an error handler. LangGraph sends them when a conditional edge throws
 * after the node's own writes. If they were stored, a resume would count the node as done and never evaluate the edge (lg#8834).
 */
export function writesToKeep(writes: readonly PendingWrite[]): readonly PendingWrite[] {
  const failed = writes.some(([channel]) => channel === ERROR);
  if (!failed || writes.some(([channel]) => channel === ERROR_SOURCE_NODE)) return writes;
  return writes.filter(([channel]) => Object.hasOwn(WRITES_IDX_MAP, channel));
}

/**
 * The writes of a task whose failure its error handler must not take over. With the marker, LangGraph would count the task as
 * done: a resume would run the handler and never the node again.
 */
export function withoutHandler(writes: PendingWrite[]): PendingWrite[] {
  return writes.filter(([channel]) => channel !== ERROR_SOURCE_NODE);
}

export interface PackedWrite {
  readonly channel: string;
  readonly packed: PackedText;
}

/**
 * Special channels have fixed negative indices and a row each. The others are numbered by their place in the list and share one
 * row. Of two writes with one index, the later counts. A row's text is a list of [index, channel, value].
 */
export function toRows(writes: readonly PackedWrite[]): NewWrite[] {
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

/** SQLite stores a lone surrogate as another character, so a write to one channel would be read as a write to another. */
export function refuseIllFormed(channel: string): void {
  if (channel.isWellFormed()) return;
  throw new TurnsError("UNSERIALIZABLE_VALUE", {
    problem: `The name of channel ${JSON.stringify(channel)} has lone surrogates.`,
    remedy: "Rename the channel. Nothing was saved.",
    data: { channel },
  });
}

/**
 * The status of a task's Action, as its writes tell it. Durable means exactly that LangGraph won't run the task again: it has
 * regular writes, or an error that its handler takes over. Undefined if the writes say nothing about it (a resume value alone).
 */
export function settlementOf(writes: readonly PendingWrite[]): { status: TurnStatus; durable: boolean } | undefined {
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
export function updateOf(writes: readonly PendingWrite[]): Record<string, unknown> {
  return Object.fromEntries(writes.filter(([channel]) => isOfUpdate(channel)));
}

/** {@link updateOf} as text. */
export function updateText(writes: readonly PackedWrite[]): PackedText {
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
