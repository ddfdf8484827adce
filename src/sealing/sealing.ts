import { TurnsError } from "../errors";
import { digest } from "../system";

/** What identifies a row besides its thread id: table, namespace, checkpoint, channel, version and so on, in a fixed order. */
export type Identity = readonly (string | number)[];

/** A part of what a checksum covers. `undefined` and `null` count as the same, because the database has one NULL for both. */
export type Part = string | number | null | undefined;

/**
 * Turns texts into what the database keeps, and back. It knows no SQL; the caller names the row that a text is stored in.
 *
 * Everything is synchronous: the keys are there before the first row is written, so a save commits before it returns.
 */
export interface Sealing {
  /** Whether texts are stored encrypted. */
  readonly encrypted: boolean;

  /** The id of the key that seals; undefined if nothing is sealed. */
  readonly keyId: string | undefined;

  /** The first bytes of everything that is sealed under that key, and of nothing else; empty if nothing is sealed. */
  readonly header: Buffer;

  /**
   * The address of a text by its content, 43 characters of base64url. It's the text's SHA-256, or in an encrypted database its
   * HMAC-SHA-256 under a key of the thread: without the keys nobody can check whether a guessed text is stored. It doesn't depend
   * on the current master key.
   *
   * @throws {TurnsError} UNSERIALIZABLE_VALUE for a text with a lone surrogate, which would share its address with another text
   */
  address(threadId: string, text: string): string;

  /**
   * A checksum over a row's identity and contents, 43 characters of base64url: SHA-256, or HMAC-SHA-256 under another key of the
   * thread. Parts keep their borders and types: `("a", "b")` and `("ab")` differ, and so do `(1)` and `("1")`.
   *
   * @throws {TurnsError} STATE_INVARIANT_VIOLATED for NaN and the infinities, which a database does not return
   */
  checksum(threadId: string, ...parts: readonly Part[]): string;

  /**
   * The form in which a text is stored. In an encrypted database that is bytes that only {@link open} with the same thread id and
   * identity accepts, and two calls never give the same bytes. Otherwise it's the text itself.
   *
   * @throws {TurnsError} UNSERIALIZABLE_VALUE for a text with a lone surrogate, which would be read as another character
   */
  seal(threadId: string, identity: Identity, text: string): string | Buffer;

  /**
   * The text that was sealed.
   *
   * @throws {TurnsError} ENCRYPTED for bytes in a database without encryption
   * @throws {TurnsError} NOT_ENCRYPTED for a plain text in an encrypted database
   * @throws {TurnsError} UNKNOWN_KEY naming the key id the bytes were sealed under
   * @throws {TurnsError} CHECKPOINT_CORRUPTED naming the row, if its bytes were changed, cut, or belong to another row
   */
  open(threadId: string, identity: Identity, stored: string | Uint8Array): string;
}

/** For a database without encryption: texts are stored as they are. */
export const plainSealing: Sealing = {
  encrypted: false,
  keyId: undefined,
  header: Buffer.alloc(0),

  address(threadId, text) {
    assertWellFormed(threadId, text);
    return sha256(text);
  },

  checksum: (threadId, ...parts) => sha256(encodePart(threadId) + encodeParts(parts)),

  seal(threadId, _identity, text) {
    assertWellFormed(threadId, text);
    return text;
  },

  open(threadId, identity, stored) {
    if (typeof stored === "string") return stored;
    if (!(stored instanceof Uint8Array)) throw corruptedRow(threadId, identity, "nothing");
    throw new TurnsError("ENCRYPTED", {
      problem: `${rowName(threadId, identity)} is ${stored.length} sealed bytes, and no keys were given.`,
      remedy: "This database is encrypted; pass the option `encryption` with its keys.",
      data: { threadId, identity },
    });
  },
};

/**
 * Joins parts so that no two lists give the same text, no matter what the parts contain. A string is preceded by its length
 * rather than quoted: it may be a megabyte, and quoting would copy it character by character.
 *
 * @returns well-formed Unicode, so that UTF-8 keeps lists apart
 * @throws {TurnsError} STATE_INVARIANT_VIOLATED for a number that is not finite
 */
export function encodeParts(parts: readonly Part[]): string {
  let encoded = "";
  for (const part of parts) encoded += encodePart(part);
  return encoded;
}

function encodePart(part: Part): string {
  if (typeof part === "string") {
    // JSON escapes lone surrogates. Unescaped, UTF-8 would turn all of them into the same character.
    return part.isWellFormed() ? `s${part.length}:${part}` : `j${JSON.stringify(part)}`;
  }
  if (part === null || part === undefined) return "z;";
  if (Number.isFinite(part)) return `n${part};`;
  throw new TurnsError("STATE_INVARIANT_VIOLATED", {
    problem: `A number in a row's identity or checksum is ${String(part)}.`,
    remedy: "This is a bug in the calling code: a database does not give such a number back.",
  });
}

/** SHA-256 of the text as UTF-8, 43 characters of base64url. */
export const sha256 = (text: string): string => digest("sha256", text, "base64url");

/** What a row is called in messages. Its identity holds ids and versions, never contents. */
export function rowName(threadId: string, identity: Identity): string {
  return `Row ${JSON.stringify([...identity])} of thread ${JSON.stringify(threadId)}`;
}

export const corruptedRow = (threadId: string, identity: Identity, found: string): TurnsError =>
  new TurnsError("CHECKPOINT_CORRUPTED", {
    problem: `${rowName(threadId, identity)} is damaged: it holds ${found}, not the bytes that were sealed for it.`,
    remedy: "The stored data was changed outside this package. Rewind to an earlier task, or restore the file from a copy.",
    data: { threadId, identity },
  });

export const unknownKey = (
  keyId: string,
  what: string,
  known: readonly string[],
  data: Record<string, unknown> = {},
): TurnsError =>
  new TurnsError("UNKNOWN_KEY", {
    problem: `${what} is sealed under the key ${JSON.stringify(keyId)}, which is not among those given (${known.map((id) => JSON.stringify(id)).join(", ")}).`,
    remedy:
      "Add that key to the option `encryption`: old keys are needed for as long as the database holds data sealed under them.",
    data: { ...data, keyId },
  });

/** Refuses what UTF-8 cannot carry. @throws {TurnsError} UNSERIALIZABLE_VALUE */
export function assertWellFormed(threadId: string, text: string): void {
  if (text.isWellFormed()) return;
  throw new TurnsError("UNSERIALIZABLE_VALUE", {
    problem: `A text of thread ${JSON.stringify(threadId)} has a lone surrogate.`,
    remedy: "Escape lone surrogates (JSON.stringify does), or store the text as bytes.",
    data: { threadId },
  });
}
