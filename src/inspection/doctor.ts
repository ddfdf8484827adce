import type { BaseTurnSaver } from "../base-saver";
import { internalsOf } from "../internals";
import type { ThreadActivity } from "../store/inspection";
import type { Drift } from "../store/schema-drift";
import { isAlive } from "../turns/process-identity";
import { NO_GRAPH } from "./answers";
import { movingIn, movingText } from "./moving";
import { paged } from "./place";
import { lostIn } from "../store/salvage";
import { effectsInDoubt, hasFailedUndo } from "./standing";
import { once, turns } from "./words";

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
  /** The write-ahead log beside the file; 0 where there is none. */
  logBytes: number;
  findings: readonly Finding[];
}

/** A quarter of the file, and not less than this. */
const MUCH_FREE = 64 * 1024 * 1024;

/** The log is emptied at this size, unless a reader holds it. */
const LONG_LOG = 64 * 1024 * 1024;
const PAGE = 500;
const MANY_DEAD = 10_000;
const OLDEST_SERVER = 14;
/** A transaction of this package may wait so long for a lock. */
const LEAST_TIMEOUT_MS = 30_000;

/** What differs from the schema that the migrations make. */
export function driftFindings(drift: readonly Drift[]): Finding[] {
  return drift.map(({ what, remedy }) => ({ kind: "problem", what, remedy }));
}

/** Looks at how a database is set up. `verify` looks at its content. */
export async function checkup(saver: BaseTurnSaver): Promise<Checkup> {
  const { store } = internalsOf(saver);
  const settings = await store.inspect.settings();
  const { bytes, logBytes, freePages, pageBytes, givesBack } = await store.space();
  const freeBytes = freePages * pageBytes;
  const drift = await store.inspect.schemaDrift();
  const findings = driftFindings(drift);
  const data = { database: store.name, node: process.version, settings, bytes, freeBytes, logBytes, findings };
  // Every other answer would be an error.
  if (drift.some(({ isMissing }) => isMissing)) return data;
  const find = (kind: Finding["kind"], what: string, remedy: string): void => {
    findings.push({ kind, what, remedy });
  };
  const { journal_mode: journal } = settings;
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
  if (logBytes > LONG_LOG) {
    find(
      "advice",
      `The write-ahead log has ${Math.round(logBytes / 1024 / 1024)} MB: a reader that never finishes keeps it from being emptied.`,
      "Find the program that reads the file for so long, or let it finish; the next save empties the log.",
    );
  }
  if (settings["server_version"] !== undefined) findings.push(...serverFindings(settings));
  const stale = (await store.inspect.runs()).filter((run) => !isAlive(run));
  if (stale.length > 0) {
    // A thread may have been deleted under its run.
    const known = await Promise.all(
      [...new Set(stale.map(({ threadId }) => threadId))].map(async (threadId) => store.inspect.activity({ threadId, limit: 1 })),
    );
    const threads = known.flat().map(({ threadId }) => threadId);
    const runs = stale.filter(({ threadId }) => threads.includes(threadId)).length;
    if (runs > 0)
      find(
        "advice",
        `${runs === 1 ? "A run" : `${runs} runs`} stopped without saying so, on ${named(threads)}.`,
        "turns status THREAD says what they were doing, and whether you can resume.",
      );
  }
  const unsettled = await effectsInDoubt(saver);
  for (const { id, threadId, toTask, reason } of (await store.inspect.unfinishedRewinds()).map((row) => ({
    ...row,
    toTask: row.targetTaskId,
  }))) {
    const lost = lostIn(reason);
    if (lost !== undefined) {
      const accept = turns("rewind", [threadId], "--abandon");
      find(
        "problem",
        `Thread ${threadId} was rescued from a damaged file, where ${lost}.`,
        `${accept} lets it continue with what is there.`,
      );
      continue;
    }
    // Nobody can give it up while it's unknown whether an undo ran.
    const isKnown = unsettled.every((effect) => effect.threadId !== threadId || effect.doubt !== "undo");
    find(
      "problem",
      `Rewind ${id} of thread ${threadId} to task ${toTask} was begun and isn't finished.`,
      `${turns("rewind", [threadId], ["--graph", NO_GRAPH])} finishes it${isKnown ? `, and ${turns("rewind", [threadId], "--abandon")} gives it up` : ""}.`,
    );
  }
  const threads = paged(
    (last: ThreadActivity | undefined) => store.inspect.activity({ after: last?.threadId, limit: PAGE }),
    PAGE,
  );
  for await (const thread of threads) {
    const moving = movingIn(saver, thread);
    if (moving === null) continue;
    find(
      "problem",
      movingText(moving).replace("The thread", `Thread ${thread.threadId}`),
      `If nobody is doing it, finish the move: ${moving.command}`,
    );
  }
  const [failed, doubts] = [unsettled.filter(hasFailedUndo), unsettled.filter((effect) => !hasFailedUndo(effect))];
  const onThreads = (effects: readonly { threadId: string }[]): string => named(once(effects.map(({ threadId }) => threadId)));
  if (failed.length > 0)
    find(
      "advice",
      `${failed.length === 1 ? "The undo of an effect" : `The undos of ${failed.length} effects`} failed, on ${onThreads(failed)}.`,
      "A rewind calls a failed undo again. turns effects --in-doubt lists these effects.",
    );
  if (doubts.length > 0)
    find(
      "problem",
      `${doubts.length === 1 ? "An effect is" : `${doubts.length} effects are`} in doubt, on ${onThreads(doubts)}.`,
      "turns effects --in-doubt lists them.",
    );
  return data;
}

/** Settings of a PostgreSQL server that matter; docs/postgres.md. */
function serverFindings(settings: Readonly<Record<string, string>>): Finding[] {
  const findings: Finding[] = [];
  const find = (kind: Finding["kind"], what: string, remedy: string): void => {
    findings.push({ kind, what, remedy });
  };
  const { synchronous_commit: commit, server_version: version = "", server_encoding: encoding } = settings;
  const number = (name: string): number => Number(settings[name] ?? 0);
  if (Number.parseInt(version, 10) < OLDEST_SERVER)
    find("problem", `The server is PostgreSQL ${version}.`, `Update it to PostgreSQL ${OLDEST_SERVER} or newer.`);
  if (commit === "off" || commit === "local")
    find(
      "advice",
      `synchronous_commit is ${commit}: a crash of the server may lose acknowledged saves.`,
      "ALTER ROLE app SET synchronous_commit = on; with the saver's role.",
    );
  for (const name of ["fsync", "full_page_writes"]) {
    if (settings[name] !== "off") continue;
    find("problem", `${name} is off: a crash of the server may corrupt the database.`, `Set ${name} = on in postgresql.conf.`);
  }
  if (settings["autovacuum"] === "off")
    find(
      "problem",
      "autovacuum is off: the space of deleted rows is never used again.",
      "Set autovacuum = on in postgresql.conf, and run: turns vacuum --yes",
    );
  if (encoding !== undefined && encoding !== "UTF8")
    find(
      "problem",
      `The database's encoding is ${encoding}, which can't hold all texts.`,
      "Create a database with ENCODING 'UTF8'.",
    );
  if (settings["standby"] === "true")
    find("advice", "The server is a replica: only reads work.", "Give your agents the URL of the primary.");
  if (settings["default_transaction_read_only"] === "on" && settings["standby"] !== "true")
    find(
      "advice",
      "default_transaction_read_only is on for this role.",
      "If agents save with this role: ALTER ROLE app SET default_transaction_read_only = off;",
    );
  const [used, most] = [number("connections of this database"), number("max_connections")];
  if (used > most * 0.8)
    find(
      "advice",
      `${used} of ${most} connections are in use.`,
      "Use smaller pools, a pooler like PgBouncer in transaction mode, or raise max_connections.",
    );
  const [dead, live] = [number("dead rows"), number("live rows")];
  if (dead > MANY_DEAD && dead > live / 4)
    find("advice", `${dead} dead rows take space, beside ${live} live ones.`, "turns vacuum --yes makes it usable again.");
  for (const name of ["statement_timeout", "transaction_timeout"]) {
    const timeout = number(name);
    if (timeout === 0 || timeout >= LEAST_TIMEOUT_MS) continue;
    find(
      "advice",
      `${name} is ${timeout} ms: a save that waits for a lock may be cancelled.`,
      `ALTER ROLE app SET ${name} = 0; with the saver's role. The saver limits its own waiting.`,
    );
  }
  return findings;
}

const NAMED = 3;

function named(threads: readonly string[]): string {
  const rest = threads.length - NAMED;
  return threads.slice(0, NAMED).join(", ") + (rest > 0 ? ` and ${rest} more threads` : "");
}
