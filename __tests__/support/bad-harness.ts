import { type Checkpoint, emptyCheckpoint, uuid6 } from "@langchain/langgraph-checkpoint";
import Database from "better-sqlite3";
import { TurnSaver, type TurnSaverOptions } from "langgraph-checkpoint-turns";
import { tempFile } from "./temp";

export const quiet = { debug() {}, info() {}, warn() {}, error() {} };
export const thread = (id: unknown = "t", more: object = {}) => ({ configurable: { thread_id: id as string, ...more } });

/** A saver on a file with the checkpoints of two bystanders, and a second connection that counts rows. */
export async function setup(options: TurnSaverOptions = {}) {
  const path = tempFile();
  const saver = TurnSaver.fromPath(path, { logger: quiet, ...options });
  for (const id of ["bystander", "t%"]) await save(saver, id);
  const witness = new Database(path, { readonly: true });
  const rows = (): Record<string, number> => countRows(witness);
  const close = (): void => {
    witness.close();
    saver.close();
  };
  return { path, saver, witness, rows, close };
}

/** How many rows every table has, and how far the threads' sequences are; what was refused must not change it. */
export function countRows(db: Database.Database): Record<string, number> {
  const tables = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'langgraph%'").pluck().all();
  const counts = (tables as string[]).map((table) => [table, db.prepare(`SELECT count(*) FROM ${table}`).pluck().get()]);
  const sequence = db.prepare("SELECT sum(seq) FROM langgraph_threads").pluck().get();
  return { ...Object.fromEntries(counts), sequence } as Record<string, number>;
}

let step = 0;

export function checkpoint(values: Record<string, unknown> = { channel: "value" }): Checkpoint {
  const versions = Object.fromEntries(Object.keys(values).map((channel) => [channel, 1]));
  return { ...emptyCheckpoint(), id: uuid6(step++), channel_values: values, channel_versions: versions };
}

/** Saves a checkpoint and a pending write on a thread. */
export async function save(saver: TurnSaver, id: string, values?: Record<string, unknown>, more: object = {}) {
  const one = checkpoint(values);
  const config = await saver.put(thread(id), one, { source: "input", step: -1, parents: {}, ...more }, one.channel_versions);
  await saver.putWrites(config, [["channel", `write of ${id}`]], "00000000-0000-4000-8000-000000000001");
  return { config, checkpoint: one };
}

export const codeOf = async (work: () => unknown): Promise<unknown> => {
  try {
    await work();
    return "no error";
  } catch (error) {
    return (error as { code?: unknown }).code ?? error;
  }
};
