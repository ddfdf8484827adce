import { type GraphDocument, parseDocument } from "../guards/fingerprint";
import { corrupted } from "../store/checksum";
import type { GraphRow } from "../store/store";

/** A graph as it was when these turns ran. */
export interface RecordedGraph {
  document: GraphDocument;
  turnIds: readonly string[];
}

/** @throws {TurnsError} CHECKPOINT_CORRUPTED */
export function recordedGraphsOf(threadId: string, rows: readonly GraphRow[]): RecordedGraph[] {
  return rows.map(({ digest, document: text, turnIds }) => {
    const document = parseDocument(digest, text);
    if (document === undefined) {
      throw corrupted(`graph ${digest} of thread ${JSON.stringify(threadId)}`, "the document of that digest", "another text", {
        threadId,
        digest,
      });
    }
    return { document, turnIds };
  });
}
