import { createCipheriv, createDecipheriv, createHash, randomBytes, type KeyObject } from "node:crypto";

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
export const KEY_ID_RULE = "1 to 64 letters, digits, dots, underscores or hyphens";

const KEY_ID = /^[A-Za-z0-9._-]{1,64}$/;
const CIPHER = "aes-256-gcm";
const CHECK_BYTES = 4;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const TAG = { authTagLength: TAG_BYTES };

export function isKeyId(value: string): boolean {
  return KEY_ID.test(value);
}

/** What sealed bytes begin with. @param keyId must satisfy {@link isKeyId} */
export function headerOf(keyId: string): Buffer {
  const named = Buffer.concat([Buffer.of(FORMAT, keyId.length), Buffer.from(keyId, "latin1")]);
  return Buffer.concat([named, createHash("sha256").update(named).digest().subarray(0, CHECK_BYTES)]);
}

/** The key id in the header; undefined if the bytes are not in this format. Nothing is verified: for bytes that are opened next. */
export function claimedKeyId(sealed: Uint8Array): string | undefined {
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
 * Encrypts and authenticates. The nonce is drawn anew each time, so a key should not seal more than 2^32 times: keys are per thread.
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
 * Undoes {@link sealBytes}.
 *
 * @param sealed bytes in which {@link claimedKeyId} found a key id
 * @returns undefined unless key, associated data and every byte are those of the sealing
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
