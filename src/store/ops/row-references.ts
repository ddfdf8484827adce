import { plainSealing } from "../../sealing";
import { corrupted } from "../refusals";
import { ALL_ROWS, type AnyRows } from "../rows";
import type { Session } from "../session";
import { storedRecord } from "./stored-json";
import type { Pointer } from "../store";
import { CHUNKS, type Column, fieldOf, type Table } from "../tables";
import { contentOf } from "./effect-rows";
import { parseManifest } from "./heads";

export type AnyRow = Readonly<Record<string, string | number | null | Uint8Array>>;
type Fields = Readonly<Record<string, unknown>>;

/** A row's references to values: codec texts, and pointers to chunks and lists. */
export interface References {
  readonly texts: string[];
  readonly pointers: Exclude<Pointer, { kind: "inline" }>[];
}

/** The {@link Rows} of the table with that name; undefined if it has none. */
export function rowsNamed(table: string): AnyRows | undefined {
  return ALL_ROWS.find((rows) => rows.table.name === table);
}

/**
 * A row, opened and verified; a chunk is verified against its address.
 * @throws {TurnsError} CHECKPOINT_CORRUPTED, and what opening throws
 */
export function openedRow(session: Session, rows: AnyRows, threadId: string | undefined, raw: AnyRow): Fields {
  // Turns outside of any thread belong to CheckpointPersister, which has no keys.
  const isAlone = raw["thread"] === null;
  const row = rows.parse(isAlone ? plainSealing : session.sealing, isAlone ? undefined : threadId, raw as never) as Fields;
  if (rows.table.name !== CHUNKS.name) return row;
  const [address, found] = [String(row["address"]), session.sealing.address(threadId ?? "", String(row["body"]))];
  if (found === address) return row;
  throw corrupted("a part of a value", `contents with address ${address.slice(0, 12)}…`, `contents with ${found.slice(0, 12)}…`, {
    seq: row["seq"],
  });
}

/**
 * @param row opened
 * @throws {TurnsError} CHECKPOINT_CORRUPTED for a malformed manifest
 */
export function referencesOf(table: Table, row: Fields): References {
  const references: References = { texts: [], pointers: [] };
  for (const [name, column] of Object.entries<Column>(table.columns)) {
    if (column.refers === undefined) continue;
    const text = row[fieldOf(name, column) ?? name] as string;
    if (column.refers === "text") references.texts.push(text);
    else if (column.refers === "texts") {
      const { input, outcome } = contentOf(text);
      for (const part of [input, outcome]) if (part !== undefined) references.texts.push(part);
    } else {
      for (const { pointer } of parseManifest(text).values()) {
        if (pointer?.kind === "inline") references.texts.push(pointer.text);
        else if (pointer !== undefined) references.pointers.push(pointer);
      }
    }
  }
  return references;
}

/** A row as an archive keeps it: JSON, with bytes as `{"hex": …}`. */
export function archivedText(row: AnyRow): string {
  const kept: Record<string, unknown> = {};
  for (const [column, value] of Object.entries(row))
    kept[column] = value instanceof Uint8Array ? { hex: Buffer.from(value).toString("hex").toUpperCase() } : value;
  return JSON.stringify(kept);
}

/**
 * The row of {@link archivedText}.
 * @throws {TurnsError} CHECKPOINT_CORRUPTED for a malformed row
 */
export function archivedRow(text: string): AnyRow {
  const row: Record<string, unknown> = storedRecord(text, "a row in the archive of a rewind");
  for (const [column, value] of Object.entries(row)) {
    const hex = (value as { hex?: unknown } | null)?.hex;
    if (typeof hex === "string") row[column] = Buffer.from(hex, "hex");
  }
  return row as AnyRow;
}
