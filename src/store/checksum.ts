import { createHash } from "node:crypto";
import { TurnsError } from "../errors";

/** SHA-256, hexadecimal: the address of a value, and by that its checksum. */
export function contentHash(text: string): string {
  return createHash("sha256").update(text, "utf8").digest("hex");
}

/** SHA-256 over a row's identity and contents, so that a row moved elsewhere does not verify either. */
export function rowChecksum(...parts: readonly (string | number | null | undefined)[]): string {
  return contentHash(JSON.stringify(parts));
}

/** Throws CHECKPOINT_CORRUPTED unless the two are equal (requirement S3.1). */
export function verifyChecksum(stored: string, computed: string, what: string, data: Record<string, unknown>): void {
  if (stored === computed) return;
  throw corrupted(what, `checksum ${stored.slice(0, 12)}…`, `contents with checksum ${computed.slice(0, 12)}…`, data);
}

export function corrupted(what: string, expected: string, found: string, data: Record<string, unknown>): TurnsError {
  return new TurnsError("CHECKPOINT_CORRUPTED", {
    what,
    expected,
    found,
    remedy: "The stored data was changed outside this package. Rewind to an earlier task, or restore the file from a copy.",
    data,
  });
}
