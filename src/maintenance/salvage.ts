import { z } from "zod";
import { refuseNoFile } from "../file-path";
import { parseDocument } from "../guards/graph-document";
import { checkedOptions } from "../options";
import { type EncryptionOption, encryptionSchema } from "../sealing";
import type { DamagedThread, LostItem, SalvagedFile } from "../store/salvage";
import { salvageFile } from "../store/sqlite/salvage";

export interface SalvageOptions {
  encryption?: EncryptionOption;
  /**
   * `"use"` (default) reads what was committed to the write-ahead log beside the file. `"ignore"` leaves the log out, for a log
   * that belongs to another file or to an older state of this one.
   */
  wal?: "use" | "ignore";
}

/** What {@link salvage} rescued and what it lost; docs/integrity.md explains how to read it. */
export interface SalvageReport extends SalvagedFile {
  source: string;
  target: string;
  ok: boolean;
}
export type { DamagedThread, LostItem };

const schema = () => z.strictObject({ encryption: encryptionSchema(), wal: z.enum(["use", "ignore"]).default("use") });

/**
 * Rescues the intact rows of a damaged file into a new one: each row that can be read and verifies, no matter which pages,
 * indexes or tables around it are damaged. The source is only read, and SQLite doesn't open it. Rows are never altered. A row
 * that doesn't verify, and any row that refers to it, is left out and listed by name. The new file passes `saver.verify()`.
 *
 * A thread that may have lost a record of completed work waits for your decision: its runs are refused with REWIND_UNFINISHED
 * until you call `saver.rewinds.abandon(acknowledge)`.
 *
 * @param source the damaged file; nobody may be writing to it
 * @param target the path of the new file
 * @throws {TurnsError} INVALID_OPTION; STORE_UNAVAILABLE, NOT_A_DATABASE, SCHEMA_CONFLICT or SCHEMA_TOO_NEW for the source;
 *   STORE_BUSY if it was written to meanwhile; SALVAGE_TARGET_EXISTS; ENCRYPTED, WRONG_KEY, UNKNOWN_KEY, KEY_PROVIDER_FAILED.
 *   Nothing is left of the target then.
 */
export async function salvage(source: string, target: string, options: SalvageOptions = {}): Promise<SalvageReport> {
  const { encryption, wal } = checkedOptions(schema, options);
  refuseNoFile("source", source, "the path of a file");
  refuseNoFile("target", target, "the path of a file");
  const isGraph = (digest: string, text: string): boolean => parseDocument(digest, text) !== undefined;
  const salvaged = await salvageFile(source, target, { encryption, ignoreLog: wal === "ignore", isGraph });
  return { source, target, ok: salvaged.lost.length === 0 && salvaged.damaged.length === 0, ...salvaged };
}
