import type { MemorySaver } from "@langchain/langgraph-checkpoint";
import type { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";
import type { Step } from "./script";
import type { Thread } from "./thread";

const ROWS_PER_COMMIT = 50;

/**
 * Brings a conversation to a length without saving each of its checkpoints through the saver, for the official savers that write all
 * messages every time: the same rows and the same bytes, but each message is serialised once. The last checkpoint is compared with what
 * the saver itself would have written.
 */
export async function seedConversation(thread: Thread, steps: number): Promise<void> {
  const { serde } = thread.saver;
  const text = async (value: unknown): Promise<string> => Buffer.from((await serde.dumpsTyped(value))[1]).toString();
  const rows = rowsOf(thread);
  const before = thread.script.values["messages"] as unknown[];
  let messages = (await Promise.all(before.map(text))).join(",");
  for (let count = 0; count < steps; count += 1) {
    const step = thread.script.next();
    const { checkpoint } = step;
    const empty = await text({ ...checkpoint, channel_values: { ...checkpoint.channel_values, messages: [] } });
    const bytes = Buffer.from(empty.replace('"messages":[]', () => `"messages":[${messages}]`));
    if (count === steps - 1) await compare(thread, step, bytes);
    rows.add(step, bytes, Buffer.from(await text(step.metadata)));
    await thread.saver.putWrites(thread.config(checkpoint.id), step.writes, step.task.id);
    for (const message of step.update["messages"] as unknown[]) messages += `${messages === "" ? "" : ","}${await text(message)}`;
    if (count % ROWS_PER_COMMIT === ROWS_PER_COMMIT - 1) rows.flush();
  }
  rows.flush();
}

interface Rows {
  add(step: Step, checkpoint: Uint8Array, metadata: Uint8Array): void;
  flush(): void;
}

function rowsOf(thread: Thread): Rows {
  return thread.contender.role === "memory" ? memoryRows(thread) : sqliteRows(thread);
}

function memoryRows({ id, saver }: Thread): Rows {
  const { storage } = saver as MemorySaver;
  return {
    add: ({ checkpoint, parentId }, bytes, metadata) => {
      const root = storage[id]?.[""];
      if (root === undefined) throw new Error("the thread has to begin first");
      root[checkpoint.id] = [bytes, metadata, parentId];
    },
    flush: () => undefined,
  };
}

function sqliteRows({ id, saver }: Thread): Rows {
  const { db } = saver as SqliteSaver;
  const insert = db.prepare("INSERT INTO checkpoints VALUES (?, '', ?, ?, 'json', ?, ?)");
  let held: unknown[][] = [];
  const write = db.transaction((rows: unknown[][]) => rows.forEach((row) => insert.run(...row)));
  return {
    add: ({ checkpoint, parentId }, bytes, metadata) => held.push([id, checkpoint.id, parentId, bytes, metadata]),
    flush: () => {
      write(held);
      held = [];
    },
  };
}

async function compare({ saver }: Thread, { checkpoint }: Step, bytes: Buffer): Promise<void> {
  const [, official] = await saver.serde.dumpsTyped(checkpoint);
  if (!bytes.equals(official)) throw new Error("the history that was laid down is not what the saver writes");
}
