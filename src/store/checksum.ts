import { TurnsError } from "../errors";

/** Throws CHECKPOINT_CORRUPTED unless the two are equal (requirement S3.1). */
export function verifyChecksum(stored: unknown, computed: string, what: string, data: Record<string, unknown>): void {
  if (stored === computed) return;
  // A page that was damaged may give nothing, or bytes, where a text must be.
  const expected = typeof stored === "string" ? stored : String(stored);
  throw corrupted(what, `checksum ${expected.slice(0, 12)}…`, `contents with checksum ${computed.slice(0, 12)}…`, data);
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
