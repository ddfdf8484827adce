import type { Identity } from "../../sealing";
import { CHUNK_ROWS, EFFECT_ROWS, type Rows, SNAPSHOT_ROWS, TURN_ROWS, WRITE_ROWS } from "../rows";
import { fromSealedText, SEALED_TEXT, toSealedText } from "../sealed-text";
import type { ResealCounts } from "../store";
import type { Column, Table } from "../tables";
import type { Sql } from "../session";

/** A column that is sealed. */
export interface SealedColumn {
  name: Exclude<keyof ResealCounts, "archived">;
  table: Table;
  column: string;
  form: "bytes" | "text";
  identity: (row: Record<string, unknown>) => Identity;
}

export const SEALED_COLUMNS: readonly SealedColumn[] = [SNAPSHOT_ROWS, CHUNK_ROWS, WRITE_ROWS, TURN_ROWS, EFFECT_ROWS].map(
  sealedIn,
);

function sealedIn(rows: Pick<Rows, "identity"> & { table: { called: SealedColumn["name"] } & Table }): SealedColumn {
  const [column, form] = Object.entries<Column>(rows.table.columns).flatMap(([name, { sealed }]) =>
    sealed === undefined ? [] : ([[name, sealed.form]] as const),
  )[0] ?? ["", "bytes"];
  return { name: rows.table.called, table: rows.table, column, form, identity: (row) => rows.identity(row) };
}

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
