import { ERROR, INTERRUPT, type PendingWrite, WRITES_IDX_MAP } from "@langchain/langgraph-checkpoint";
import { MARKER } from "./codec";
import { TurnsError } from "./errors";
import type { NewWrite, PackedText, TurnStatus } from "./store/store";

const ERROR_SOURCE_NODE = "__error_source_node__";

/**
 * Drops the regular writes of a task that failed without an error handler. LangGraph sends them when a conditional edge throws after
 * the node's own writes; stored, they would make a resume count the node as done and the edge would never be evaluated (lg#8834).
 */
export function writesToKeep(writes: readonly PendingWrite[]): readonly PendingWrite[] {
  const failed = writes.some(([channel]) => channel === ERROR);
  if (!failed || writes.some(([channel]) => channel === ERROR_SOURCE_NODE)) return writes;
  return writes.filter(([channel]) => Object.hasOwn(WRITES_IDX_MAP, channel));
}

/**
 * The writes of a task whose failure its error handler must not take over: with the marker, LangGraph would count the task as done, and a
 * resume would run the handler and never again the node.
 */
export function withoutHandler(writes: PendingWrite[]): PendingWrite[] {
  return writes.filter(([channel]) => channel !== ERROR_SOURCE_NODE);
}

/** A write whose value is packed. */
export interface PackedWrite extends PackedText {
  index: number;
  channel: string;
}

/**
 * Special channels have fixed negative indices, the others take their place in the list. Of two writes with one index the later counts.
 *
 * @param pack a value as text
 */
export function packedWrites(
  writes: readonly PendingWrite[],
  pack: (channel: string, value: unknown) => PackedText,
): PackedWrite[] {
  const places = new Map<number, PendingWrite>();
  writes.forEach((write, place) => {
    refuseIllFormed(write[0]);
    places.set(specialIndex(write[0]) ?? place, write);
  });
  return [...places].map(([index, [channel, value]]) => ({ index, channel, ...pack(channel, value) }));
}

/** Special writes have a row each, the others share one. */
export function toRows(writes: readonly PackedWrite[]): NewWrite[] {
  const regular = writes.filter(({ index }) => index >= 0);
  const rows = writes.filter(({ index }) => index < 0).map((write) => ({ idx: write.index, entries: entriesOf([write]) }));
  return regular.length === 0 ? rows : [{ idx: 0, entries: entriesOf(regular) }, ...rows];
}

function entriesOf(writes: readonly PackedWrite[]): PackedText {
  const texts = writes.map(({ index, channel, text }) => `[${index},${JSON.stringify(channel)},${text}]`);
  return { text: `[${texts.join(",")}]`, parts: writes.flatMap(({ parts }) => parts) };
}

/** SQLite stores a lone surrogate as another character: what was written to one channel would come back in another. */
function refuseIllFormed(channel: string): void {
  if (channel.isWellFormed()) return;
  throw new TurnsError("UNSERIALIZABLE_VALUE", {
    what: `the name of channel ${JSON.stringify(channel)}`,
    expected: "a string without lone surrogates",
    found: "one with them",
    remedy: "Rename the channel. Nothing was saved.",
    data: { channel },
  });
}

/**
 * What the writes make of their task's Action. Durable means exactly that LangGraph will not run the task again: it has writes besides
 * the special ones, or an error that its handler takes over. Undefined: the writes say nothing about it (a resume value alone).
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

/** The node's update as its writes tell it, for an Action that no recorder has seen. */
export function updateOf(writes: readonly PendingWrite[]): Record<string, unknown> {
  return Object.fromEntries(writes.filter(([channel]) => isOfUpdate(channel)));
}

/** {@link updateOf} of writes that are packed, as the text of a record; undefined for one that has the codec's own mark among its keys. */
export function updateTextOf(writes: readonly PackedWrite[]): PackedText | undefined {
  const channels = new Map(writes.filter(({ channel }) => isOfUpdate(channel)).map((write) => [write.channel, write]));
  if (channels.has(MARKER)) return undefined;
  const texts = [...channels].map(([channel, { text }]) => `${JSON.stringify(channel)}:${text}`);
  return { text: `{${texts.join(",")}}`, parts: [...channels.values()].flatMap(({ parts }) => parts) };
}

function isOfUpdate(channel: string): boolean {
  return !/^(__|branch:|join:)/.test(channel);
}

function specialIndex(channel: string): number | undefined {
  return Object.hasOwn(WRITES_IDX_MAP, channel) ? WRITES_IDX_MAP[channel] : undefined;
}
