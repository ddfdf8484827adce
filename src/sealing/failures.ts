import { TurnsError } from "../errors";
import type { Identity } from "./sealing";

/** What a row is called in messages: its identity is ids and versions, never contents. */
export function rowName(threadId: string, identity: Identity): string {
  return `row ${JSON.stringify([...identity])} of thread ${JSON.stringify(threadId)}`;
}

export function corruptedRow(threadId: string, identity: Identity, found: string): TurnsError {
  return new TurnsError("CHECKPOINT_CORRUPTED", {
    what: rowName(threadId, identity),
    expected: "the bytes that were sealed for this row",
    found,
    remedy: "The stored data was changed outside this package. Rewind to an earlier task, or restore the file from a copy.",
    data: { threadId, identity },
  });
}

export function unknownKey(
  keyId: string,
  what: string,
  known: readonly string[],
  data: Record<string, unknown> = {},
): TurnsError {
  return new TurnsError("UNKNOWN_KEY", {
    what,
    expected: `one of the keys given (${known.map((id) => JSON.stringify(id)).join(", ")})`,
    found: `data sealed under the key ${JSON.stringify(keyId)}`,
    remedy:
      "Add that key to the option `encryption`: old keys are needed for as long as the database holds data sealed under them.",
    data: { ...data, keyId },
  });
}

/** Refuses what UTF-8 cannot carry. @throws {TurnsError} UNSERIALIZABLE_VALUE */
export function assertWellFormed(threadId: string, text: string): void {
  if (text.isWellFormed()) return;
  throw new TurnsError("UNSERIALIZABLE_VALUE", {
    what: `a text of thread ${JSON.stringify(threadId)}`,
    expected: "well-formed Unicode, as the codec writes it",
    found: "a lone surrogate",
    remedy: "Escape lone surrogates (JSON.stringify does), or store the text as bytes.",
    data: { threadId },
  });
}
