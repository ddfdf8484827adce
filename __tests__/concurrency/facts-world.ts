import type { CheckpointTuple } from "@langchain/langgraph-checkpoint";
import type { TurnSaver } from "../../src/index";
import { TurnsError } from "../../src/testing-internal";
import { configOf, idOf, put, putWrites } from "../support/model-calls";

/** Something that one of several savers does. */
export type Task =
  | { do: "step"; id: number; task: string; note: string; fromMemory: boolean }
  | { do: "again"; note: string }
  | { do: "write"; node: number; note: string }
  | { do: "write early"; id: number; node: number; note: string }
  | { do: "rewind"; task: string }
  | { do: "prune"; keepLast: number }
  | { do: "delete" }
  | { do: "name"; name: string }
  | { do: "look" };

/** @returns what it came to: an error's code, or what the saver sees of the thread afterwards */
export async function perform(saver: TurnSaver, task: Task): Promise<unknown> {
  try {
    await work(saver, task);
  } catch (error) {
    if (!TurnsError.is(error)) throw error;
    return { refused: error.code };
  }
  return task.do === "look" ? seenBy(saver) : "done";
}

/** What each saver was last given, be it there still or not. */
const lastLogs = new WeakMap<TurnSaver, string[]>();

async function work(saver: TurnSaver, task: Task): Promise<void> {
  const isFromMemory = task.do === "step" && task.fromMemory;
  const head = isFromMemory ? await listedHead(saver) : await saver.getTuple(configOf({}));
  switch (task.do) {
    case "step": {
      const found = (head?.checkpoint.channel_values["log"] ?? []) as string[];
      const log = isFromMemory ? (lastLogs.get(saver) ?? found) : found;
      const version = numberOf(head) + 1;
      // Long enough to be stored as a list, element by element.
      const values = { log: [...log, `${task.note} `.repeat(150)], big: `${task.note} `.repeat(60), same: "x".repeat(200) };
      await put(saver, {
        id: task.id,
        parent: head === undefined ? undefined : Number(head.checkpoint.id.slice(-12)),
        values,
        versions: { log: version, big: version, same: 1 },
        task: task.task,
        extra: { next: version },
      });
      lastLogs.set(saver, values.log);
      return;
    }
    case "again":
      if (head === undefined) return;
      await put(saver, {
        id: Number(head.checkpoint.id.slice(-12)),
        parent: Number(head.checkpoint.id.slice(-12)),
        values: { ...head.checkpoint.channel_values, big: task.note },
        versions: head.checkpoint.channel_versions,
        source: "loop",
      });
      return;
    case "write":
      if (head !== undefined) await write(saver, Number(head.checkpoint.id.slice(-12)), task);
      return;
    case "write early":
      await write(saver, task.id, task);
      return;
    case "rewind":
      await saver.rewind({ threadId: "thread", toTask: task.task });
      return;
    case "prune":
      await saver.prune({ threadId: "thread", keepLast: task.keepLast });
      return;
    case "delete":
      await saver.deleteThread("thread");
      return;
    case "name":
      if (head !== undefined) await saver.names.set({ threadId: "thread" }, task.name);
      return;
    case "look":
  }
}

/** The newest checkpoint, without noting that the next save continues from it: a run saves one after the other and reads none. */
async function listedHead(saver: TurnSaver): Promise<CheckpointTuple | undefined> {
  for await (const tuple of saver.list(configOf({}), { limit: 1 })) return tuple;
  return undefined;
}

async function write(saver: TurnSaver, id: number, { node, note }: { node: number; note: string }): Promise<void> {
  await putWrites(saver, { id }, `0000000${node}-0000-5000-8000-000000000000`, [["log", [note, "y".repeat(300)]]]);
}

function numberOf(head: CheckpointTuple | undefined): number {
  return Number(head?.checkpoint.channel_versions["log"] ?? 0);
}

/** All that a saver says of the thread. */
export async function seenBy(saver: TurnSaver): Promise<unknown> {
  const list: unknown[] = [];
  for await (const { config, checkpoint, metadata, pendingWrites, parentConfig } of saver.list({
    configurable: { thread_id: "thread" },
  })) {
    list.push({ config, checkpoint, metadata, pendingWrites, parentConfig });
  }
  let thread: unknown;
  for (const one of await saver.listThreads()) if (one.threadId === "thread") thread = one;
  const [head, turns, tasks] =
    thread === undefined
      ? [undefined, [], []]
      : [await saver.getTuple(configOf({})), await saver.turns.list("thread"), await saver.turns.tasks("thread")];
  return JSON.parse(JSON.stringify({ list, head, thread, turns, tasks })) as unknown;
}

export { idOf };
