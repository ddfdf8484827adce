import { ARCHIVED_ROWS } from "../rows";
import { type ArchivedRow, sealArchived, verifyArchived } from "./archive";
import { currentStart, resealed, SEALED_COLUMNS, type SealedColumn } from "./sealed-tables";
import type { Program } from "../program";
import type { Sql } from "../session";

/** Where in a rewind's archive; the rows of a rewind are numbered. */
export type ArchivePlace = readonly [rewindId: string, ordinal: number];
export const ARCHIVE_BEGIN: ArchivePlace = ["", 0];

const STALE = ARCHIVED_ROWS.select(`WHERE (rewind_id, ordinal) > (?1, ?2) AND CASE tbl
    ${SEALED_COLUMNS.map(
      (column) =>
        `WHEN '${column.table.name}' THEN substr(json_extract(row, '${pathOf(column)}'), 1, length(${startOf(column)})) <> ${startOf(column)}`,
    ).join("\n    ")}
    ELSE 0 END
  ORDER BY rewind_id, ordinal LIMIT 1`);

/** Archived rows are JSON, with bytes as `{"hex": …}`. */
function pathOf({ column, form }: SealedColumn): string {
  return form === "bytes" ? `$.${column}.hex` : `$.${column}`;
}

function startOf({ form }: SealedColumn): string {
  return form === "bytes" ? "?3" : "?4";
}

/** The next archived row that is sealed under another key than the current one. */
export function* staleArchived(sql: Sql, after: ArchivePlace): Program<ArchivedRow | undefined> {
  const bytes = (currentStart(sql, "bytes") as Buffer).toString("hex").toUpperCase();
  return yield* sql.get<ArchivedRow>(STALE, ...after, bytes, currentStart(sql, "text"));
}

/** Seals it anew. @returns where it was; undefined if there was none */
export function* resealArchived(sql: Sql, after: ArchivePlace): Program<ArchivePlace | undefined> {
  const found = yield* staleArchived(sql, after);
  if (found === undefined) return undefined;
  const column = SEALED_COLUMNS.find(({ table }) => table.name === found.tbl) as SealedColumn;
  verifyArchived(sql, found);
  const row = JSON.parse(found.row) as Record<string, unknown>;
  const stored = row[column.column] as string | { hex: string };
  const sealed = resealed(
    sql,
    found.thread_id,
    column.identity(row),
    typeof stored === "string" ? stored : Buffer.from(stored.hex, "hex"),
  );
  yield* sql.run(
    `UPDATE langgraph_archive SET row = json_set(row, '${pathOf(column)}', ?) WHERE rewind_id = ? AND ordinal = ?`,
    typeof sealed === "string" ? sealed : sealed.toString("hex").toUpperCase(),
    found.rewind_id,
    found.ordinal,
  );
  yield* sealArchived(sql, found.rewind_id, found.ordinal);
  return [found.rewind_id, found.ordinal];
}
