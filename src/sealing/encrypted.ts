import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createHmac,
  createSecretKey,
  hkdfSync,
  type KeyObject,
  randomBytes,
} from "node:crypto";
import { TurnsError } from "../errors";
import { isKeyId, type MasterKey, type ResolvedKeys } from "./keys";
import { assertWellFormed, corruptedRow, encodeParts, type Identity, rowName, type Sealing, sha256, unknownKey } from "./sealing";

/**
 * The sealing of an encrypted database.
 *
 * @param keys the current key seals; all of them open
 * @param secret the database's, from `createDatabaseSecret` or `unwrapSecret`
 */
export function encryptedSealing(keys: ResolvedKeys, secret: Uint8Array): Sealing {
  const threads = new ThreadKeyring(secret);
  const header = headerOf(keys.current.id);

  return {
    encrypted: true,
    keyId: keys.current.id,
    header,

    address(threadId, text) {
      assertWellFormed(threadId, text);
      return hmac(threads.of(threadId).address, text);
    },

    checksum: (threadId, ...parts) => hmac(threads.of(threadId).checksum, encodeParts([threadId]) + encodeParts(parts)),

    seal(threadId, identity, text) {
      assertWellFormed(threadId, text);
      const key = threads.of(threadId).seal(keys.current);
      // Given a string, `update` would encode it itself and take twice as long for a large one.
      return sealBytes(key, header, associated(threadId, identity), Buffer.from(text, "utf8"));
    },

    open(threadId, identity, stored) {
      if (typeof stored === "string") throw notEncrypted(threadId, identity);
      if (!(stored instanceof Uint8Array)) throw corruptedRow(threadId, identity, "nothing");
      const keyId = claimedKeyId(stored);
      const master = keyId === undefined ? undefined : keys.byId.get(keyId);
      if (master === undefined) throw notOpenable(keys, threadId, identity, stored);
      const content = openBytes(threads.of(threadId).seal(master), associated(threadId, identity), stored);
      if (content === undefined) {
        throw corruptedRow(threadId, identity, "bytes that were changed, or sealed for another row or under another key");
      }
      return content.toString("utf8");
    },
  };
}

/** Binds sealed bytes to the row they are in: moved to another row, they do not open. */
function associated(threadId: string, identity: Identity): string {
  return encodeParts(["turns", threadId, ...identity]);
}

function hmac(key: KeyObject, text: string): string {
  return createHmac("sha256", key).update(text, "utf8").digest("base64url");
}

function notOpenable(keys: ResolvedKeys, threadId: string, identity: Identity, stored: Uint8Array): TurnsError {
  const keyId = sealedKeyId(stored);
  if (keyId === undefined) return corruptedRow(threadId, identity, `${stored.length} bytes that are not in the sealed format`);
  return unknownKey(keyId, rowName(threadId, identity), [...keys.byId.keys()], { threadId, identity });
}

const notEncrypted = (threadId: string, identity: Identity): TurnsError =>
  new TurnsError("NOT_ENCRYPTED", {
    problem: `${rowName(threadId, identity)} is plain text in an encrypted database.`,
    remedy: "The row was written outside this package, or before the database was encrypted; restore the file from a copy.",
    data: { threadId, identity },
  });

/** How many threads' keys are kept. Deriving them again costs as much as sealing ten small texts. */
const CAPACITY = 1_000;
const NO_SALT = new Uint8Array(0);

interface ThreadKeys {
  readonly address: KeyObject;
  readonly checksum: KeyObject;
  /**
   * The key that seals. It's derived from the master key, so a new master key protects new rows from anybody who knows the old
   * one.
   */
  seal(master: MasterKey): KeyObject;
}

/**
 * Derives the keys of threads and keeps those of the last used threads.
 *
 * Addresses and checksums come from the database's secret, which outlives every master key. The secret is also the salt of the
 * sealing keys, so rows can't be exchanged between two databases with one master key.
 */
class ThreadKeyring {
  readonly #secret: Buffer;
  readonly #root: KeyObject;
  readonly #threads = new Map<string, ThreadKeys>();

  constructor(secret: Uint8Array) {
    this.#secret = Buffer.from(secret);
    this.#root = createSecretKey(this.#secret);
  }

  of(threadId: string): ThreadKeys {
    const known = this.#threads.get(threadId);
    const keys = known ?? this.#derive(threadId);
    // A Map lists its keys by age. Deleting a key and setting it again makes it the youngest.
    if (known !== undefined) this.#threads.delete(threadId);
    else if (this.#threads.size >= CAPACITY) this.#threads.delete(this.#threads.keys().next().value as string);
    this.#threads.set(threadId, keys);
    return keys;
  }

  #derive(threadId: string): ThreadKeys {
    const sealing = new Map<string, KeyObject>();
    return {
      address: deriveKey(this.#root, NO_SALT, "address", threadId),
      checksum: deriveKey(this.#root, NO_SALT, "checksum", threadId),
      seal: (master) => {
        const known = sealing.get(master.id);
        if (known !== undefined) return known;
        const key = deriveKey(master.key, this.#secret, "seal", threadId);
        sealing.set(master.id, key);
        return key;
      },
    };
  }
}

/** What a derived key is for. It is part of the derivation, so no key ever serves two purposes. */
type Purpose = "wrap" | "seal" | "address" | "checksum";

/**
 * Derives a key of 32 bytes with HKDF-SHA-256.
 *
 * @param scope whose key it is, for example the thread's. It's hashed, because HKDF in Node takes no more than 1024 bytes.
 */
export function deriveKey(from: KeyObject, salt: Uint8Array, purpose: Purpose, ...scope: readonly string[]): KeyObject {
  const info = `turns/1/${purpose}/${sha256(encodeParts(scope))}`;
  return createSecretKey(Buffer.from(hkdfSync("sha256", from, salt, info, 32)));
}

/*
 * Sealed bytes:
 *
 *   1 byte    format, 1: AES-256-GCM with the layout below
 *   1 byte    length of the key id
 *   n bytes   id of the master key, ASCII
 *   4 bytes   the first of SHA-256 over all before: tells a key that is not given from a key id that was damaged
 *   12 bytes  nonce, random
 *   m bytes   ciphertext, as long as the text in UTF-8
 *   16 bytes  authentication tag over ciphertext and associated data
 *
 * All that comes before the nonce is the header. It is not secret, and authenticated as the beginning of the associated data.
 */
const FORMAT = 1;
const CIPHER = "aes-256-gcm";
const CHECK_BYTES = 4;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const TAG = { authTagLength: TAG_BYTES };

/** What sealed bytes begin with. @param keyId must satisfy {@link isKeyId} */
export function headerOf(keyId: string): Buffer {
  const named = Buffer.concat([Buffer.of(FORMAT, keyId.length), Buffer.from(keyId, "latin1")]);
  return Buffer.concat([named, createHash("sha256").update(named).digest().subarray(0, CHECK_BYTES)]);
}

/**
 * The key id in the header; undefined if the bytes aren't in this format. Nothing is verified: use it for bytes that are opened
 * next.
 */
function claimedKeyId(sealed: Uint8Array): string | undefined {
  const length = sealed[1];
  if (sealed[0] !== FORMAT || length === undefined || sealed.length < headerBytes(length) + NONCE_BYTES + TAG_BYTES)
    return undefined;
  const keyId = asBuffer(sealed).toString("latin1", 2, 2 + length);
  return isKeyId(keyId) ? keyId : undefined;
}

/** The id of the master key that bytes were sealed under; undefined if they are not in this format, or their header is damaged. */
export function sealedKeyId(sealed: Uint8Array): string | undefined {
  const keyId = claimedKeyId(sealed);
  if (keyId === undefined) return undefined;
  const header = headerOf(keyId);
  return header.equals(sealed.subarray(0, header.length)) ? keyId : undefined;
}

/**
 * Encrypts and authenticates. Each call draws a new nonce, so one key should not seal more than 2^32 times; that's why keys are
 * per thread.
 *
 * @param header of {@link headerOf}
 * @param associated what {@link openBytes} must be given again
 */
export function sealBytes(key: KeyObject, header: Buffer, associated: string, content: Uint8Array): Buffer {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, key, nonce, TAG);
  cipher.setAAD(Buffer.concat([header, Buffer.from(associated, "utf8")]));
  const body = cipher.update(content);
  cipher.final();
  return Buffer.concat([header, nonce, body, cipher.getAuthTag()]);
}

/**
 * Opens what {@link sealBytes} sealed.
 *
 * @param sealed bytes in which {@link claimedKeyId} found a key id
 * @returns undefined unless the key, the associated data and every byte match
 */
export function openBytes(key: KeyObject, associated: string, sealed: Uint8Array): Buffer | undefined {
  const bytes = asBuffer(sealed);
  const start = headerBytes(bytes.readUInt8(1));
  const end = bytes.length - TAG_BYTES;
  const decipher = createDecipheriv(CIPHER, key, bytes.subarray(start, start + NONCE_BYTES), TAG);
  decipher.setAAD(Buffer.concat([bytes.subarray(0, start), Buffer.from(associated, "utf8")]));
  decipher.setAuthTag(bytes.subarray(end));
  const content = decipher.update(bytes.subarray(start + NONCE_BYTES, end));
  try {
    decipher.final();
  } catch {
    return undefined;
  }
  return content;
}

function headerBytes(keyIdLength: number): number {
  return 2 + keyIdLength + CHECK_BYTES;
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
