import { createSecretKey, type KeyObject } from "node:crypto";
import { types } from "node:util";
import { TurnsError } from "../errors";
import { isKeyId, KEY_ID_RULE } from "./envelope";

/** 32 random bytes: as bytes, as 64 hexadecimal digits, or as base64 (also base64url, also without padding). */
export type KeyInput = Uint8Array | string;

/** A master key. Held as a `KeyObject`, which no logger and no `JSON.stringify` prints. */
export interface MasterKey {
  readonly id: string;
  readonly key: KeyObject;
}

/** Master keys, checked: what is sealed goes under `current`, what is opened under the key it names. */
export interface ResolvedKeys {
  readonly current: MasterKey;
  readonly byId: ReadonlyMap<string, MasterKey>;
}

/**
 * Checks a set of keys, and copies them.
 *
 * @param input key by key id
 * @throws {TurnsError} INVALID_OPTION for an id or a key that is none, for one key under two ids, and if `current` is not among them
 */
export function toResolvedKeys(input: Readonly<Record<string, unknown>>, current: string): ResolvedKeys {
  const byId = new Map<string, MasterKey>();
  for (const [id, value] of Object.entries(input)) {
    if (!isKeyId(id)) throw refused("the id of an encryption key", KEY_ID_RULE, `an id of ${id.length} characters`);
    const key = createSecretKey(keyBytes(value, id));
    const twin = [...byId.values()].find((other) => other.key.equals(key));
    if (twin !== undefined) throw refused(nameOf(id), "a key of its own", `the same key as ${JSON.stringify(twin.id)}`);
    byId.set(id, { id, key });
  }
  const found = byId.get(current);
  if (found === undefined) {
    const ids = [...byId.keys()].map((id) => JSON.stringify(id)).join(", ");
    throw refused("option `encryption.current`", `one of the key ids given (${ids})`, "an id that is not among them");
  }
  return { current: found, byId };
}

/** Never puts any part of a key into an error, not even of one that is malformed: it is still close to a secret. */
function keyBytes(value: unknown, id: string): Buffer {
  const expected = "32 random bytes (a Uint8Array, 64 hexadecimal digits, or base64)";
  if (typeof value === "string") {
    const bytes = decodeKey(value);
    if (bytes === undefined) {
      throw refused(
        nameOf(id),
        expected,
        `a string of ${value.length} characters`,
        "A passphrase is no key: derive one with crypto.scryptSync(passphrase, salt, 32), and keep the salt.",
      );
    }
    return random(bytes, id);
  }
  if (!types.isUint8Array(value)) throw refused(nameOf(id), expected, `a value of type ${typeof value}`);
  if (value.length !== 32) throw refused(nameOf(id), expected, `${value.length} bytes`);
  return random(Buffer.from(value), id);
}

function decodeKey(text: string): Buffer | undefined {
  if (/^[0-9a-fA-F]{64}$/.test(text)) return Buffer.from(text, "hex");
  if (!/^[A-Za-z0-9+/_-]{43}=?$/.test(text)) return undefined;
  const bytes = Buffer.from(text, "base64");
  // The last character carries two bits that are not part of the key; where they are set, something was mistyped.
  const canonical = text.replaceAll("-", "+").replaceAll("_", "/").replace("=", "");
  return bytes.toString("base64").replace("=", "") === canonical ? bytes : undefined;
}

/** Refuses what 32 random bytes are never like (odds below 10^-13): one byte over and over, or a line of text. */
function random(bytes: Buffer, id: string): Buffer {
  const found = bytes.every((byte) => byte === bytes[0])
    ? "the same byte 32 times"
    : bytes.every((byte) => byte >= 0x20 && byte < 0x7f)
      ? "32 characters of text"
      : undefined;
  if (found === undefined) return bytes;
  throw refused(
    nameOf(id),
    "32 random bytes",
    found,
    "Make a key with crypto.randomBytes(32), or derive it from a passphrase with crypto.scryptSync(passphrase, salt, 32).",
  );
}

function nameOf(id: string): string {
  return `the encryption key ${JSON.stringify(id)}`;
}

function refused(what: string, expected: string, found: string, remedy?: string): TurnsError {
  return new TurnsError("INVALID_OPTION", {
    what,
    expected,
    found,
    remedy: remedy ?? "Correct the option `encryption`, or what its provider returns.",
    data: { option: "encryption" },
  });
}
