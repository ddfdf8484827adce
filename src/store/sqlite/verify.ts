import { unknownThread } from "../unknown-thread";
import type { VerifyStep } from "../integrity";
import type { Program } from "../program";
import type { Sql } from "../session";
import { threadNumbers } from "../ops/thread-rows";
import { archives } from "./verify-archive";
import { type Owner, VerifyContext } from "./verify-context";
import { effects, graphs, type IsGraph } from "./verify-effects";
import { file, versions } from "./verify-file";
import { indexes, type TableIndex, tableIndexes } from "./verify-indexes";
import { rewinds } from "./verify-rewinds";
import { snapshots } from "./verify-snapshots";
import { names, settings, tasks, threadCount, threads, tombstones } from "./verify-threads";
import { turns } from "./verify-turns";
import { chunks, items, lists } from "./verify-values";
import type { Phase } from "./verify-walk";
import { writes } from "./verify-writes";
import { uptime } from "../../uptime";

/** How long one transaction goes on. */
const STEP_MS = 20;

/** A walk through all tables, a moment at a time; each moment is to see one state of the database. @throws {TurnsError} THREAD_NOT_FOUND */
export function* startVerify(sql: Sql, threadId: string | undefined, isGraph: IsGraph): Program<() => Program<VerifyStep>> {
  const thread = threadId === undefined ? undefined : yield* numberOf(sql, threadId);
  if (threadId !== undefined && thread === undefined) throw unknownThread(threadId);
  const ctx = new VerifyContext(sql, thread);
  const only = thread === undefined ? undefined : yield* ctx.owner(thread);
  const phases = phasesOf(only, isGraph, yield* tableIndexes(sql));
  let index = 0;
  function* look(): Program {
    ctx.begin(uptime() + STEP_MS);
    for (let phase = phases[index]; phase !== undefined && !ctx.isOver; phase = phases[index]) {
      if (!(yield* isMore(ctx, phase))) index += 1;
    }
  }
  return function* () {
    yield* look();
    return ctx.take(phases[index]?.table);
  };
}

/** Damaged or not. */
function* numberOf(sql: Sql, threadId: string): Program<number | undefined> {
  return (yield* threadNumbers(sql, threadId))[0];
}

/** A page that SQLite cannot read ends the look at its table, and is on record. */
function* isMore(ctx: VerifyContext, phase: Phase): Program<boolean> {
  ctx.table = phase.table;
  try {
    return yield* phase.next(ctx);
  } catch (error) {
    ctx.failed(error, undefined, {});
    return false;
  }
}

/** The file first: what SQLite cannot read explains the rest. Archives last: a rewind meanwhile moves rows into them. */
function phasesOf(only: Owner | undefined, isGraph: IsGraph, ofTables: readonly TableIndex[]): Phase[] {
  const thread = only?.thread;
  return [
    ...(only === undefined ? [file(), versions(), threadCount(), settings()] : []),
    ...indexes(only, ofTables),
    threads(thread),
    tombstones(only),
    tasks(thread),
    ...snapshots(thread),
    ...chunks(thread),
    ...lists(thread),
    items(thread),
    ...writes(thread),
    turns(thread),
    ...graphs(thread, isGraph),
    ...effects(thread),
    names(thread),
    rewinds(only),
    archives(only),
  ];
}
