import type { Identity } from "../../sealing";
import type { ResealCounts } from "../store";
import { CHUNK_IDENTITY, effectIdentity, metadataIdentity, turnIdentity, writesIdentity } from "./identities";
import { fromSealedText, SEALED_TEXT, toSealedText } from "./sealed-text";
import type { Sql } from "./sql";

/** A column that is sealed, and what the identity of its rows is made of. */
export interface SealedColumn {
  name: Exclude<keyof ResealCounts, "archived">;
  table: string;
  column: string;
  /** Bytes, or text that has them in base64. */
  form: "bytes" | "text";
  columns: readonly string[];
  identity: (row: Record<string, unknown>) => Identity;
}

const place = (row: Record<string, unknown>) => ({
  seq: row["seq"] as number,
  ns: row["checkpoint_ns"] as string,
  checkpointId: row["checkpoint_id"] as string,
});
const task = (row: Record<string, unknown>) => ({ nodeTaskId: row["node_task_id"] as string, idx: row["idx"] as number });

export const SEALED_COLUMNS: readonly SealedColumn[] = [
  {
    name: "checkpoints",
    table: "langgraph_snapshots",
    column: "metadata",
    form: "bytes",
    columns: ["seq", "checkpoint_ns", "checkpoint_id"],
    identity: (row) => metadataIdentity(place(row)),
  },
  { name: "values", table: "langgraph_chunks", column: "body", form: "bytes", columns: [], identity: () => CHUNK_IDENTITY },
  {
    name: "writes",
    table: "langgraph_writes",
    column: "entries",
    form: "bytes",
    columns: ["seq", "checkpoint_ns", "checkpoint_id", "node_task_id", "idx"],
    identity: (row) => writesIdentity({ ...place(row), ...task(row) }),
  },
  {
    name: "turns",
    table: "langgraph_checkpoints",
    column: "serialized_state",
    form: "text",
    columns: ["id"],
    identity: (row) => turnIdentity(row["id"] as string),
  },
  {
    name: "effects",
    table: "langgraph_effects",
    column: "content",
    form: "bytes",
    columns: ["id"],
    identity: (row) => effectIdentity(row["id"] as string),
  },
];

/** What a column begins with that is sealed under the current key, and no other does: its key id stands in front. */
export function currentStart(sql: Sql, form: SealedColumn["form"]): string | Buffer {
  const { header } = sql.sealing;
  // Base64 carries three bytes in four characters; what is cut off is a part of the checksum behind the id.
  return form === "bytes" ? header : SEALED_TEXT + header.subarray(0, header.length - (header.length % 3)).toString("base64");
}

/** The same text, sealed under the current key, in the same form. @throws what `open` of the sealing throws */
export function resealed(sql: Sql, threadId: string, identity: Identity, stored: string | Uint8Array): string | Buffer {
  const bytes = typeof stored === "string" ? (fromSealedText(stored) ?? stored) : stored;
  const sealed = sql.sealing.seal(threadId, identity, sql.sealing.open(threadId, identity, bytes)) as Buffer;
  return typeof stored === "string" ? toSealedText(sealed) : sealed;
}
