import type { BaseTurnSaver } from "../base-saver";
import { internalsOf } from "../internals";
import { isAlive } from "../turns/process-identity";
import { effectsInDoubt } from "./standing";

/** Something that a person should know. */
export interface Finding {
  /** `problem`: do something about it. `advice`: it works, and could be better. */
  kind: "problem" | "advice";
  what: string;
  remedy: string;
}

export interface Checkup {
  database: string;
  node: string;
  settings: Readonly<Record<string, string>>;
  bytes: number;
  freeBytes: number;
  findings: readonly Finding[];
}

/** A quarter of the file, and not less than this. */
const MUCH_FREE = 64 * 1024 * 1024;

/** Looks at how a database is set up. `verify` looks at its content. */
export async function checkup(saver: BaseTurnSaver): Promise<Checkup> {
  const { store } = internalsOf(saver);
  const settings = await store.inspect.settings();
  const { bytes, freePages, pageBytes, givesBack } = await store.space();
  const freeBytes = freePages * pageBytes;
  const findings: Finding[] = [];
  const find = (kind: Finding["kind"], what: string, remedy: string): void => {
    findings.push({ kind, what, remedy });
  };
  const { journal_mode: journal, synchronous_commit: commit, fsync, autovacuum } = settings;
  if (journal !== undefined && journal !== "wal")
    find(
      "advice",
      `The journal mode is ${journal}, so readers and writers block each other.`,
      "Open it once with TurnSaver.fromPath(path), which sets WAL.",
    );
  if (freeBytes > MUCH_FREE && freeBytes > bytes / 4) {
    find(
      "advice",
      `${Math.round((freeBytes / bytes) * 100)} % of the file is free space.`,
      givesBack ? "turns vacuum gives it back." : "turns vacuum --full rewrites the file.",
    );
  }
  if (commit === "off" || commit === "local")
    find(
      "advice",
      `synchronous_commit is ${commit}: a crash of the server may lose acknowledged saves.`,
      "Set it to on for the saver's role.",
    );
  if (fsync === "off")
    find("problem", "fsync is off: a crash of the server may corrupt the database.", "Set fsync = on in postgresql.conf.");
  if (autovacuum === "off")
    find(
      "problem",
      "autovacuum is off: the space of deleted rows is never used again.",
      "Set autovacuum = on in postgresql.conf.",
    );
  const stale = (await store.inspect.runs()).filter((run) => !isAlive(run));
  if (stale.length > 0) {
    const threads = [...new Set(stale.map(({ threadId }) => threadId))];
    find(
      "advice",
      `${stale.length === 1 ? "A run" : `${stale.length} runs`} stopped without saying so, on ${named(threads)}.`,
      "turns status THREAD says what they were doing, and whether you can resume.",
    );
  }
  for (const { id, threadId, toTask } of (await store.inspect.unfinishedRewinds()).map((row) => ({
    ...row,
    toTask: row.targetTaskId,
  }))) {
    find(
      "problem",
      `Rewind ${id} of thread ${threadId} to task ${toTask} was begun and isn't finished.`,
      "Finish it with runner.finishRewind, which has the undos, or abandon it with saver.rewinds.abandon.",
    );
  }
  const doubts = await effectsInDoubt(saver);
  if (doubts.length > 0)
    find(
      "problem",
      `${doubts.length === 1 ? "An effect is" : `${doubts.length} effects are`} in doubt, on ${named([...new Set(doubts.map(({ threadId }) => threadId))])}.`,
      "turns effects --in-doubt lists them.",
    );
  return { database: store.name, node: process.version, settings, bytes, freeBytes, findings };
}

const NAMED = 3;

function named(threads: readonly string[]): string {
  const rest = threads.length - NAMED;
  return threads.slice(0, NAMED).join(", ") + (rest > 0 ? ` and ${rest} more threads` : "");
}
