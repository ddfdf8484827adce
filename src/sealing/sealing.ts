/** What stands beside a row's thread id in its identity: table, namespace, checkpoint, channel, version and so on, in a fixed order. */
export type Identity = readonly (string | number)[];

/** What a checksum is taken over. `undefined` and `null` count as the same, because the database has one NULL for both. */
export type Part = string | number | null | undefined;

/**
 * Turns texts into what the database keeps, and back. It knows no SQL; whoever stores a text names the row it is stored in.
 *
 * Everything is synchronous: the keys are there before the first row is written, so that a save commits before it returns.
 */
export interface Sealing {
  /** Whether texts are stored encrypted. */
  readonly encrypted: boolean;

  /** The id of the key that seals; undefined where nothing is sealed. */
  readonly keyId: string | undefined;

  /** What everything begins with that is sealed under that key, and nothing else; empty where nothing is sealed. */
  readonly header: Buffer;

  /**
   * The address of a text by its content, 43 characters of base64url: its SHA-256, or in an encrypted database HMAC-SHA-256 under a
   * key of the thread, so that nobody without the keys can tell whether a text they guess is stored. It does not depend on which
   * master key is current.
   *
   * @throws {TurnsError} UNSERIALIZABLE_VALUE for a text with a lone surrogate, which would share its address with another text
   */
  address(threadId: string, text: string): string;

  /**
   * A checksum over a row's identity and contents, 43 characters of base64url: SHA-256, or HMAC-SHA-256 under another key of the
   * thread. Parts keep their borders and types: `("a", "b")`, `("ab")` and `(1)`, `("1")` all differ.
   *
   * @throws {TurnsError} STATE_INVARIANT_VIOLATED for NaN and the infinities, which a database does not give back
   */
  checksum(threadId: string, ...parts: readonly Part[]): string;

  /**
   * The form in which a text is stored: itself, or in an encrypted database bytes that only {@link open} with the same thread id
   * and identity accepts. Two calls never give the same bytes.
   *
   * @throws {TurnsError} UNSERIALIZABLE_VALUE for a text with a lone surrogate, which would come back as another character
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
