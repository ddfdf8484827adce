import { vacuum } from "langgraph-checkpoint-turns/maintenance";
import { createHash } from "node:crypto";
import { chmodSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname } from "node:path";
import Database from "better-sqlite3";
import { CheckpointPersister, TurnSaver, type TurnSaverOptions, TurnsError, type VerifyReport } from "langgraph-checkpoint-turns";
import { CheckpointFile } from "langgraph-checkpoint-turns/checkpoint-file";
import { type Deeds, errands, runTask, settled, TASKS } from "./errands";
import { checkpointFault, idOf, save, saveWrites, threadOf, turnOf, writesFault } from "./histories";
import { GAVE_UP, type Scribe } from "./scribe";

const quiet = { debug() {}, info() {}, warn() {}, error() {} };
/** The user with no rights. */
const NOBODY = 65_534;
const ENCRYPTION = { keys: { k: createHash("sha256").update("k").digest() }, current: "k" };

export interface Given {
  scribe: Scribe;
  /** The database. */
  file: string;
  deeds: Deeds;
  /** How many saves, where the workload is one of saves. */
  rounds: number;
}

export function optionsOf(name: string): TurnSaverOptions {
  return { logger: quiet, ...(name === "sealed" ? { encryption: ENCRYPTION } : {}) };
}

/** Opens, does its work, and closes. Acknowledgements are printed at once. */
export const WORKLOADS: Record<string, (given: Given) => Promise<void>> = {
  saves: (given) => withSaver(given, optionsOf("saves"), (saver) => saves(given, saver)),
  sealed: (given) => withSaver(given, optionsOf("sealed"), (saver) => saves(given, saver)),
  turns,
  graph: (given) => withSaver(given, optionsOf("graph"), (saver) => graph(given, saver)),
  // Dies during the work, and leaves a log that hasn't been moved into the file.
  dying: (given) => withSaver(given, optionsOf("graph"), (saver) => graph(given, saver, "charged")),
  "dying later": (given) => withSaver(given, optionsOf("graph"), (saver) => graph(given, saver, "mailed")),
  upkeep: (given) => withSaver(given, optionsOf("upkeep"), (saver) => upkeep(given, saver)),
  progress,
  forbidden,
  reads: (given) => withSaver(given, optionsOf("reads"), (saver) => reads(given, saver)),
};

async function withSaver({ scribe, file }: Given, options: TurnSaverOptions, work: (saver: TurnSaver) => Promise<void>) {
  const saver = await scribe.step("open", () => TurnSaver.fromPath(file, options));
  if (saver === GAVE_UP) return;
  await work(saver);
  await scribe.step("close", () => saver.close());
}

/** Checkpoints and writes on two threads; the log is moved into the file now and then. */
async function saves({ scribe, rounds }: Given, saver: TurnSaver): Promise<void> {
  for (let index = 0; index < rounds; index += 1) {
    const look = (fault: typeof checkpointFault, missing: boolean) => async () => {
      const found = await scribe.step("read", () => fault(saver, index));
      if (found === GAVE_UP || found === undefined || (missing && found === "absent")) return;
      scribe.wrong(`${fault.name} ${index}: ${found}`);
    };
    // Refused although it is there would be fine. There in part, or altered, would not.
    const saved = await scribe.step(`put ${index}`, () => save(saver, index), look(checkpointFault, true));
    if (saved === GAVE_UP) continue;
    scribe.ack("checkpoint", index);
    await look(checkpointFault, false)();
    const written = await scribe.step(`putWrites ${index}`, () => saveWrites(saver, index), look(writesFault, true));
    if (written === GAVE_UP) continue;
    scribe.ack("writes", index);
    await look(writesFault, false)();
    if (index % 3 === 2) await scribe.step("vacuum", () => vacuum(saver));
  }
}

/** The turn log by itself, on a handle of the user's own, without a write-ahead log. */
/** The handle is the user's own. Retrying its errors is up to the user, and isn't tested here. */
function handleOf(file: string): Database.Database {
  for (let left = 9; ; left -= 1) {
    try {
      return new Database(file);
    } catch (error) {
      if (left === 0) throw error;
    }
  }
}

async function turns({ scribe, file, rounds }: Given): Promise<void> {
  const db = handleOf(file);
  const persister = await scribe.step("open", () => new CheckpointPersister(db));
  if (persister === GAVE_UP) return void db.close();
  for (let index = 0; index < rounds; index += 1) {
    const saved = await scribe.step(
      `save ${index}`,
      // If it was saved after all, it may not be saved again.
      () => (persister.load(`turn-${index}`) === null ? persister.save(turnOf(index)) : undefined),
      async () => {
        if (db.inTransaction) scribe.wrong("a transaction is left open");
      },
    );
    if (saved !== GAVE_UP) scribe.ack("turn", index);
  }
  const went = await scribe.step("deleteAfter", () => persister.deleteAfter("T0", ["T0", "T1"]));
  if (went !== GAVE_UP) scribe.ack("deleted", "T1");
  db.close();
}

/** A user who may not open a file, then not its folder, and then may open a file. */
async function forbidden({ scribe, file }: Given): Promise<void> {
  const index = 12;
  const saving = async (): Promise<void> => {
    const saver = TurnSaver.fromPath(file, optionsOf("saves"));
    try {
      await save(saver, index);
    } finally {
      saver.close();
    }
  };
  const folder = dirname(file);
  // The driver is loaded with the first database. This user may have no right to read it, say in a clone below a home folder of mode 700.
  TurnSaver.fromPath(":memory:").close();
  process.seteuid?.(NOBODY);
  await scribe.step("open, where nothing may be looked at", saving);
  process.seteuid?.(0);
  for (let at = folder; at !== tmpdir() && at !== dirname(at); at = dirname(at)) chmodSync(at, 0o755);
  process.seteuid?.(NOBODY);
  await scribe.step("save, where nothing may be written", saving);
  process.seteuid?.(0);
  chmodSync(file, 0o666);
  process.seteuid?.(NOBODY);
  await scribe.step("save, where no log may be made", saving);
  process.seteuid?.(0);
  chmodSync(folder, 0o777);
  process.seteuid?.(NOBODY);
  if ((await scribe.step("save", saving)) !== GAVE_UP) scribe.ack("checkpoint", index);
  process.seteuid?.(0);
}

/** A CHECKPOINT.md that is updated. */
async function progress({ scribe, file, rounds }: Given): Promise<void> {
  const checkpointFile = new CheckpointFile(file);
  for (let index = 0; index < rounds; index += 1) {
    const done = await scribe.step(`log ${index}`, () => checkpointFile.logTokens("p", { input: 1 }));
    if (done !== GAVE_UP) scribe.ack("logged", index);
  }
}

async function graph({ scribe, deeds }: Given, saver: TurnSaver, diesAt?: string): Promise<void> {
  const at = (place: string): void => {
    if (place === diesAt) process.kill(process.pid, "SIGKILL");
  };
  await runTask(scribe, errands(saver, deeds, at), deeds, ["g", "T1"]);
}

/** Everything that works on saved data: on a file with thread g of three tasks, and threads t0 and t1 with histories. */
async function upkeep({ scribe, deeds }: Given, saver: TurnSaver): Promise<void> {
  const runner = errands(saver, deeds);
  await verified(scribe, saver);
  await scribe.step("prune", () => saver.prune({ threadId: "t0", keepLast: 2 }));
  await scribe.step("vacuum", () => vacuum(saver));
  await scribe.step("vacuum full", () => vacuum(saver, { full: true }));
  const copied = await scribe.step("copy", async () => {
    if (!(await hasThread(saver, "copy"))) await saver.copyThread("t1", "copy");
  });
  if (copied !== GAVE_UP) scribe.ack("copied");
  const deleted = await scribe.step("delete", () => saver.deleteThread("t1"));
  if (deleted !== GAVE_UP) scribe.ack("deleted");
  for (let doubts = 0; doubts < 6; doubts += 1) {
    let doubt: TurnsError | undefined;
    const report = await scribe.step("rewind", async () => {
      try {
        return await runner.rewind({ threadId: "g", toTask: "T1" });
      } catch (error) {
        if (TurnsError.is(error, "EFFECT_IN_DOUBT")) doubt = error;
        throw error;
      }
    });
    if (report !== GAVE_UP) {
      scribe.ack("rewound");
      const { rewindId } = report;
      if (rewindId === undefined) break;
      const back = await scribe.step("take back", () => saver.rewinds.takeBack(rewindId, { despiteUndone: true }));
      if (back !== GAVE_UP) scribe.ack("taken back");
      break;
    }
    if (doubt === undefined || (await settled(scribe, saver, deeds, doubt)) === GAVE_UP) break;
  }
  await verified(scribe, saver);
}

async function hasThread(saver: TurnSaver, threadId: string): Promise<boolean> {
  for (const thread of await saver.listThreads()) if (thread.threadId === threadId) return true;
  return false;
}

const UNREAD = /SQLITE_(IOERR\w*|FULL|CANTOPEN\w*|CORRUPT)|error code[ =]\d+|Failed to read ptrmap/;

/** A page that couldn't be read is in the report, with SQLite's name for the error. */
async function verified(scribe: Scribe, saver: TurnSaver): Promise<VerifyReport | typeof GAVE_UP> {
  const report = await scribe.step("verify", () => saver.verify());
  if (report === GAVE_UP || report.ok) return report;
  const { found = "" } = report.problems.find(({ found: told }) => !UNREAD.test(told)) ?? {};
  if (found !== "") scribe.wrong(`verify: ${found}`);
  for (const { found: told } of report.problems) {
    scribe.say({ kind: "refused", at: "verify", code: "reported", sqlite: UNREAD.exec(told)?.[0] });
  }
  return report;
}

/** Reads everything from the file of {@link upkeep}, and prints each answer. */
async function reads({ scribe }: Given, saver: TurnSaver): Promise<void> {
  const told = async (what: string, read: () => Promise<unknown>): Promise<void> => {
    const value = await scribe.step(what, read);
    if (value !== GAVE_UP) scribe.say({ kind: "saw", what, value: JSON.stringify(value) });
  };
  for (let index = 0; index < 8; index += 1) {
    await told(`checkpoint ${index}`, async () => (await checkpointFault(saver, index)) ?? "as it was saved");
  }
  for (const thread of ["t0", "t1", "g"]) {
    await told(`list ${thread}`, async () => {
      const found: unknown[] = [];
      for await (const { checkpoint } of saver.list({ configurable: { thread_id: thread } })) found.push(checkpoint);
      return found;
    });
    await told(`turns ${thread}`, () => saver.turns.list(thread));
    await told(`effects ${thread}`, () => saver.effects.list(thread));
    await told(`tasks ${thread}`, () => saver.turns.tasks(thread));
  }
  await told(`pending ${idOf(1)} of ${threadOf(1)}`, async () => (await writesFault(saver, 1)) ?? "as they were saved");
  await told("tasks asked for", async () => (await saver.turns.tasks("g")).map(({ taskId }) => TASKS.includes(taskId)));
  await verified(scribe, saver);
}
