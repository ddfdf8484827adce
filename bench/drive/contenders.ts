import { type BaseCheckpointSaver, MemorySaver } from "@langchain/langgraph-checkpoint";
import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";
import type { Database } from "better-sqlite3";
import { TurnsError, TurnSaver } from "langgraph-checkpoint-turns";

export interface Contender {
  id: string;
  name: string;
  role: "official" | "memory" | "ours";
  /** Whether Thoughts and Actions are recorded as nodes run. */
  records: boolean;
  /** Whether the data lies in a file of the bench, and whether another saver can open it. */
  hasFile: boolean;
  reopens: boolean;
  open(path: string): Promise<BaseCheckpointSaver>;
  /** On a database that the bench opened, where it counts what the saver does. Missing: the saver takes none. */
  onHandle?(db: Database): BaseCheckpointSaver;
  close(saver: BaseCheckpointSaver): Promise<void>;
}

/** The saver all promises are about. */
export const OURS = "turns";
export const OFFICIAL = "official";
export const MEMORY = "memory";
export const IMMUTABLE = "immutable";
export const OURS_FULL = "turns-full";

const silent = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: (...told: unknown[]) => console.error(told),
};

function ours(id: string, name: string, records: boolean, options: Record<string, unknown>): Contender {
  // The warning that a saver is not attached is right, and known here.
  const all: Record<string, unknown> = { ...options, logger: silent };
  return {
    id,
    name,
    role: "ours",
    records,
    hasFile: true,
    reopens: true,
    open: async (path) => TurnSaver.fromPath(path, all),
    onHandle: (db) => new TurnSaver(db, all),
    close: async (saver) => (saver as TurnSaver).close(),
  };
}

const sqlite: Contender = {
  id: OFFICIAL,
  name: "official SqliteSaver",
  role: "official",
  records: false,
  hasFile: true,
  reopens: true,
  open: async (path) => SqliteSaver.fromConnString(path),
  onHandle: (db) => new SqliteSaver(db),
  close: async (saver) => void (saver as SqliteSaver).db.close(),
};

const memory: Contender = {
  id: MEMORY,
  name: "MemorySaver",
  role: "memory",
  records: false,
  hasFile: false,
  reopens: false,
  open: async () => new MemorySaver(),
  close: async () => undefined,
};

/** Those who take part, and a line for each who cannot. */
export async function contendersHere(): Promise<{ contenders: Contender[]; absent: string[] }> {
  const candidates = [
    sqlite,
    memory,
    ours(OURS, "TurnSaver normal, turns", true, { synchronous: "normal" }),
    ours(OURS_FULL, "TurnSaver full, turns", true, { synchronous: "full" }),
    ours("no-turns", "TurnSaver normal, not attached", false, { synchronous: "normal" }),
    ours(IMMUTABLE, "TurnSaver normal, turns, immutable", true, { synchronous: "normal", immutable: true }),
  ];
  const contenders: Contender[] = [];
  const absent: string[] = [];
  for (const contender of candidates) {
    if (await opens(contender)) contenders.push(contender);
    else absent.push(`${contender.name}: this version refuses the option`);
  }
  return { contenders, absent };
}

async function opens(contender: Contender): Promise<boolean> {
  try {
    await contender.close(await contender.open(":memory:"));
    return true;
  } catch (error) {
    if (TurnsError.is(error, "INVALID_OPTION")) return false;
    throw error;
  }
}
