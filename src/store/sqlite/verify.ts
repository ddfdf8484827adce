import { uptime } from "../../system";
import type { VerifyStep } from "../integrity";
import { threadNumbers } from "../ops/thread-rows";
import { archives } from "../ops/verify-archive";
import { type Phase, VerifyContext } from "../ops/verify-context";
import { type IsGraph, rewinds, rowsOfTables, threads, tombstones } from "../ops/verify-rows";
import type { Program } from "../program";
import { unknownThread } from "../refusals";
import type { Session } from "../session";
import { file, indexes, settings, tableIndexes, threadCount, versions } from "./verify-file";

/** The length of one transaction. */
const STEP_MS = 20;

/**
 * A walk through all tables in short steps. Each step has to see one state of the database.
 * @throws {TurnsError} THREAD_NOT_FOUND
 */
export function* startVerify(
  session: Session,
  threadId: string | undefined,
  isGraph: IsGraph,
): Program<() => Program<VerifyStep>> {
  const ctx = new VerifyContext(session);
  const thread = threadId === undefined ? undefined : (yield* threadNumbers(session, threadId))[0];
  if (threadId !== undefined && thread === undefined) throw unknownThread(threadId);
  const only = thread === undefined ? undefined : yield* ctx.owner(thread);
  // The file comes first: pages that SQLite can't read explain the rest. Archives come last: a rewind meanwhile moves rows into
  // them.
  const phases = [
    ...(only === undefined ? [file(), versions(), threadCount(), settings()] : []),
    ...indexes(only, yield* tableIndexes(session)),
    ...[threads(only), tombstones(only)],
    ...rowsOfTables(only, isGraph),
    ...[rewinds(only), archives(only)],
  ];
  let index = 0;
  return function* () {
    ctx.begin(uptime() + STEP_MS);
    for (let phase = phases[index]; phase !== undefined && !ctx.isOver; phase = phases[index]) {
      if (!(yield* isMore(ctx, phase))) index += 1;
    }
    return ctx.take(phases[index]?.table);
  };
}

/** A page that SQLite can't read stops the check of its table, and is on record. */
function* isMore(ctx: VerifyContext, phase: Phase): Program<boolean> {
  ctx.table = phase.table;
  return (yield* ctx.at().attempted(phase.next(ctx))) === true;
}
