import { TurnsError } from "../../errors";
import type { Program } from "../program";
import { NAME_ROWS } from "../rows";
import type { Session } from "../session";
import type { CheckpointName } from "../store";
import type { NAMES, RawOf } from "../tables";
import type { ThreadState } from "../thread-state";
import { unknownThread } from "../refusals";
import { threadKey } from "./thread-rows";

const FIND = `SELECT checkpoint_id FROM langgraph_snapshots
  WHERE thread = ?1 AND checkpoint_ns = ?2 AND (CAST(?3 AS TEXT) IS NULL OR checkpoint_id = ?3) AND superseded_by IS NULL
  ORDER BY position DESC LIMIT 1`;
const IS_GIVEN = "SELECT 1 FROM langgraph_names WHERE thread = ? AND name = ?";
const LIST = NAME_ROWS.select("WHERE thread = ? ORDER BY name");
const UNNAME = "DELETE FROM langgraph_names WHERE thread = ? AND name = ?";

/**
 * Names a checkpoint. The name is taken from the checkpoint that had it.
 * @throws {TurnsError} THREAD_NOT_FOUND, CHECKPOINT_NOT_FOUND
 */
export function* nameCheckpoint(
  session: Session,
  at: { threadId: string; ns: string; checkpointId: string | undefined },
  name: string,
  createdAt: string,
): Program<CheckpointName> {
  const key = yield* threadKey(session, at.threadId);
  if (key === undefined) throw unknownThread(at.threadId);
  const found = yield* session.get<{ checkpoint_id: string }>(FIND, key.thread, at.ns, at.checkpointId ?? null);
  if (found === undefined) throw unknownCheckpoint(at);
  return yield* saveName(session, key, { name, ns: at.ns, checkpointId: found.checkpoint_id, createdAt });
}

function* saveName(session: Session, key: ThreadState, given: CheckpointName): Program<CheckpointName> {
  if ((yield* session.get(IS_GIVEN, key.thread, given.name)) === undefined) key.count("others");
  else key.touch();
  yield* session.run(NAME_ROWS.save, ...NAME_ROWS.values(session.sealing, key, given));
  return given;
}

export function* listNames(session: Session, threadId: string): Program<CheckpointName[]> {
  const key = yield* threadKey(session, threadId);
  return key === undefined ? [] : yield* namesOf(session, key);
}

export function* namesOf(session: Session, key: ThreadState): Program<CheckpointName[]> {
  return (yield* session.all<RawOf<typeof NAMES>>(LIST, key.thread)).map((row) =>
    NAME_ROWS.parse(session.sealing, key.threadId, row),
  );
}

/** @returns whether there was such a name */
export function* unnameCheckpoint(session: Session, threadId: string, name: string): Program<boolean> {
  const key = yield* threadKey(session, threadId);
  if (key === undefined || (yield* session.changes(UNNAME, key.thread, name)) === 0) return false;
  key.count("others", -1);
  return true;
}

function unknownCheckpoint(at: { threadId: string; ns: string; checkpointId: string | undefined }): TurnsError {
  return new TurnsError("CHECKPOINT_NOT_FOUND", {
    problem: `Thread ${JSON.stringify(at.threadId)} has no ${at.checkpointId === undefined ? "checkpoint" : `checkpoint ${at.checkpointId}`}${at.ns === "" ? "" : ` in ${JSON.stringify(at.ns)}`} to name.`,
    remedy: "saver.list(config) shows which checkpoints there are.",
    data: { ...at },
  });
}
