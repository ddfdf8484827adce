import { ERROR, INTERRUPT, type PendingWrite, WRITES_IDX_MAP } from "@langchain/langgraph-checkpoint";
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

/**
 * Special channels have fixed negative indices and a row each; the others take their place in the list and share one. Of two writes
 * with one index the later counts.
 *
 * @param pack a list of [index, channel, value] as text
 */
export function toRows(writes: readonly PendingWrite[], pack: (entries: Entry[]) => PackedText): NewWrite[] {
  const entries = new Map<number, Entry>();
  writes.forEach(([channel, value], place) => {
    refuseIllFormed(channel);
    const index = specialIndex(channel) ?? place;
    entries.set(index, [index, channel, value]);
  });
  const regular = [...entries.values()].filter(([index]) => index >= 0);
  const rows = [...entries.values()].filter(([index]) => index < 0).map((entry) => [entry]);
  return [...(regular.length > 0 ? [regular] : []), ...rows].map((row) => ({
    idx: Math.min(row[0]?.[0] ?? 0, 0),
    entries: pack(row),
  }));
}

export type Entry = [index: number, channel: string, value: unknown];

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
  return Object.fromEntries(writes.filter(([channel]) => !/^(__|branch:|join:)/.test(channel)));
}

function specialIndex(channel: string): number | undefined {
  return Object.hasOwn(WRITES_IDX_MAP, channel) ? WRITES_IDX_MAP[channel] : undefined;
}
