import type { Program } from "../program";
import { WRITE_ROWS } from "../rows";
import type { Session } from "../session";
import type { AskedWrites, Remembered } from "../store";
import type { RawWrites } from "./put-writes";
import { threadKey } from "./thread-rows";
import { ChunkReader } from "./values";

/** LangGraph's indices: `__interrupt__` -3, `__resume__` -4. */
const ASKED = WRITE_ROWS.select("WHERE thread = ? AND seq >= ? AND idx IN (-3, -4) ORDER BY seq");

/** Questions and answers of all namespaces, with the versions that later ones replaced. */
export function* questionsAsked(
  session: Session,
  threadId: string,
  sinceSeq: number,
  remembered: Remembered,
): Program<AskedWrites> {
  const key = yield* threadKey(session, threadId);
  if (key === undefined) return { writes: [], generation: "", chunks: new Map() };
  const rows = yield* session.all<RawWrites>(ASKED, key.thread, sinceSeq);
  const writes = rows.map((row) => WRITE_ROWS.parse(session.sealing, threadId, row));
  const reader = new ChunkReader(session, key, remembered);
  for (const { entries } of writes) yield* reader.readFrom(entries);
  return { writes, generation: key.generation, chunks: reader.texts };
}
