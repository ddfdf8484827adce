import type { RunnableConfig } from "@langchain/core/runnables";
import { type Checkpoint, type CheckpointMetadata, emptyCheckpoint } from "@langchain/langgraph-checkpoint";
import type { LangGraphCheckpoint, TurnSaver } from "langgraph-checkpoint-turns";

/** Two threads in turn, so that a connection has more than one of them in memory. */
export function threadOf(index: number): string {
  return `t${index % 2}`;
}

export function idOf(index: number): string {
  return `1f0${String(index).padStart(5, "0")}-0000-6000-8000-000000000000`;
}

/** What the index-th checkpoint holds: a list that grows, one that changes in its middle, a record with large texts, small values. */
export function stateOf(index: number): Record<string, unknown> {
  const own = Math.floor(index / 2) + 1;
  const log = Array.from({ length: own }, (_, at) => `${threadOf(index)} entry ${at} ${"x".repeat(300 + ((at * 37) % 500))}`);
  const edited = log.map((entry, at) => (at === own - 2 ? `edited at ${own}: ${entry}` : entry));
  const files = Object.fromEntries(Array.from({ length: Math.min(own, 4) }, (_, at) => [`f${at}`, `${own} ${"y".repeat(900)}`]));
  return { log, edited, files, count: index, note: `note ${index}` };
}

export function configOf(index: number): RunnableConfig {
  const parent = index < 2 ? {} : { checkpoint_id: idOf(index - 2) };
  return { configurable: { thread_id: threadOf(index), checkpoint_ns: "", ...parent } };
}

export function atOf(index: number): RunnableConfig {
  return { configurable: { thread_id: threadOf(index), checkpoint_ns: "", checkpoint_id: idOf(index) } };
}

export function checkpointOf(index: number): Checkpoint {
  const channel_values = stateOf(index);
  const channel_versions = Object.fromEntries(Object.keys(channel_values).map((channel) => [channel, index + 1]));
  return { ...emptyCheckpoint(), id: idOf(index), ts: "2026-01-01T00:00:00.000Z", channel_values, channel_versions };
}

export function save(saver: TurnSaver, index: number): Promise<RunnableConfig> {
  const checkpoint = checkpointOf(index);
  const metadata = { source: "loop", step: index, parents: {} } as CheckpointMetadata;
  return saver.put(configOf(index), checkpoint, metadata, checkpoint.channel_versions);
}

export function saveWrites(saver: TurnSaver, index: number): Promise<void> {
  return saver.putWrites(atOf(index), writesOf(index), taskOf(index));
}

export function writesOf(index: number): [string, unknown][] {
  return [
    ["log", `${threadOf(index)} write ${index} ${"w".repeat(400)}`],
    ["count", index + 1],
  ];
}

function taskOf(index: number): string {
  return `00000000-0000-4000-8000-${String(index).padStart(12, "0")}`;
}

export function turnOf(index: number): LangGraphCheckpoint {
  return {
    id: `turn-${index}`,
    graphId: "g",
    nodeName: "n",
    turnType: index % 2 === 0 ? "Thought" : "Action",
    state: { index, text: "z".repeat(2_000) },
    taskId: `T${Math.floor(index / 4)}`,
    createdAt: new Date(1_750_000_000_000 + index * 1_000),
  };
}

/** What is wrong with a checkpoint that was read; "absent" if it is not there, undefined if nothing is wrong. */
export async function checkpointFault(saver: TurnSaver, index: number): Promise<string | undefined> {
  const tuple = await saver.getTuple(atOf(index));
  if (tuple === undefined) return "absent";
  if (same(tuple.checkpoint.channel_values, stateOf(index))) return undefined;
  return `checkpoint ${index} holds something else`;
}

export async function writesFault(saver: TurnSaver, index: number): Promise<string | undefined> {
  const pending = (await saver.getTuple(atOf(index)))?.pendingWrites ?? [];
  if (pending.length === 0) return "absent";
  const found = pending.map(([, channel, value]) => [channel, value]);
  return same(found, writesOf(index)) ? undefined : `the writes of checkpoint ${index} are others`;
}

export function same(left: unknown, right: unknown): boolean {
  return JSON.stringify(left) === JSON.stringify(right);
}
