import { uptime } from "../../system";
import type { VerifyStep } from "../integrity";
import { threadNumbers } from "./thread-rows";
import { archives } from "./verify-archive";
import { type Owner, type Phase, VerifyContext } from "./verify-context";
import { type IsGraph, rewinds, rowsOfTables, threads, tombstones } from "./verify-rows";
import type { Program } from "../program";
import { unknownThread } from "../refusals";
import type { Session } from "../session";

/** The length of one transaction: a file's step holds up the event loop, a server's doesn't, and begins with round trips of its own. */
const STEP_MS = 20;
const REMOTE_STEP_MS = 250;

/** What an engine checks of its own before the rows, on the whole database or on one thread. */
type OwnPhases = (session: Session, only: Owner | undefined) => Program<Phase[]>;

/**
 * A walk through all tables in short steps. Each step is a transaction, and has to see one state of the database.
 * @throws {TurnsError} THREAD_NOT_FOUND
 */
export function* startVerify(
  session: Session,
  threadId: string | undefined,
  isGraph: IsGraph,
  own?: OwnPhases,
): Program<(session: Session) => Program<VerifyStep>> {
  const ctx = new VerifyContext(session);
  const thread = threadId === undefined ? undefined : (yield* threadNumbers(session, threadId))[0];
  if (threadId !== undefined && thread === undefined) throw unknownThread(threadId);
  const only = thread === undefined ? undefined : yield* ctx.owner(thread);
  // What the engine can't read explains the rest. Archives come last: a rewind meanwhile moves rows into them.
  const phases = [
    ...(own === undefined ? [] : yield* own(session, only)),
    ...[threads(only), tombstones(only)],
    ...rowsOfTables(only, isGraph),
    ...[rewinds(only), archives(only)],
  ];
  const stepMs = session.engine.sendsTogether === true ? REMOTE_STEP_MS : STEP_MS;
  let index = 0;
  return function* (now) {
    ctx.begin(now, uptime() + stepMs);
    for (let phase = phases[index]; phase !== undefined && !ctx.isOver; phase = phases[index]) {
      if (!(yield* isMore(ctx, phase))) index += 1;
    }
    return ctx.take(phases[index]?.table);
  };
}

/** A page that can't be read stops the check of its table, and is on record. */
function* isMore(ctx: VerifyContext, phase: Phase): Program<boolean> {
  ctx.table = phase.table;
  ctx.keep();
  try {
    return (yield* ctx.at().attempted(phase.next(ctx))) === true;
  } catch (error) {
    ctx.cutBack();
    throw error;
  }
}
