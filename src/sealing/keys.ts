import { createSecretKey, type KeyObject } from "node:crypto";
import { types } from "node:util";
import { z } from "zod";
import { TurnsError } from "../errors";
import { unknownOption } from "../unknown-option";

/** Keys by id, and the id of the one that seals from now on. The others only open what was sealed under them. */
export interface KeySet {
  keys: Readonly<Record<string, KeyInput>>;
  current: string;
}

/**
 * Fetches keys, for instance from a vault. It's called once, when the database is opened, so saving and loading never wait for a
 * key. It gets the ids of all keys under which the database holds data (none if it's new), and returns those keys and the current
 * one.
 */
export type KeyProvider = (keyIds: readonly string[]) => KeySet | Promise<KeySet>;

/** One key (its id is `"default"` unless given), several keys, or a function that fetches them. */
export type EncryptionOption = { key: KeyInput; keyId?: string } | KeySet | { provider: KeyProvider };

const DEFAULT_KEY_ID = "default";
const NAMES: readonly string[] = ["key", "keyId", "keys", "current", "provider"];
const SHAPES = "{ key, keyId? }, { keys, current } or { provider }";
const KEY_ID_RULE = "1 to 64 letters, digits, dots, underscores or hyphens";

export function isKeyId(value: string): boolean {
  return /^[A-Za-z0-9._-]{1,64}$/.test(value);
}

const present = () => z.unknown().refine((value) => value !== undefined, "a key");
const single = () => z.strictObject({ key: present(), keyId: z.string("a string").optional() });
const several = () =>
  z.strictObject({
    keys: z.record(z.string(), z.unknown(), "an object of keys by id"),
    current: z.string("a key id"),
  });
const provided = () =>
  z.strictObject({
    provider: z.custom<KeyProvider>((value) => typeof value === "function", "a function that returns keys"),
  });

/**
 * For the options of a saver. Only the shape is checked here; the keys are checked when they are resolved. The errors are our own
 * and not zod's issues, because an issue may quote the value, and here the value may be a key.
 *
 * @throws {TurnsError} INVALID_OPTION
 */
export const encryptionSchema = () =>
  z
    .unknown()
    .optional()
    .transform((option): EncryptionOption | undefined => {
      if (option !== undefined) parse(shapeOf(option), option, "encryption");
      return option as EncryptionOption | undefined;
    });

/**
 * The keys that an option names. Answers at once, unless a provider returns a promise.
 *
 * @param keyIds those under which the database holds data; see `sealedKeyIds`
 * @throws {TurnsError} INVALID_OPTION for an invalid option, and for a key that is malformed or of the wrong kind
 * @throws {TurnsError} KEY_PROVIDER_FAILED with the provider's own error as `cause`
 */
export function resolveKeys(
  option: Exclude<EncryptionOption, { provider: KeyProvider }>,
  keyIds?: readonly string[],
): ResolvedKeys;
export function resolveKeys(option: EncryptionOption, keyIds?: readonly string[]): ResolvedKeys | Promise<ResolvedKeys>;
export function resolveKeys(option: EncryptionOption, keyIds: readonly string[] = []): ResolvedKeys | Promise<ResolvedKeys> {
  if (hasOwn(option, "provider")) return askProvider(parse(provided, option, "encryption").provider, keyIds);
  if (hasOwn(option, "keys")) return keysOf(option, "encryption");
  const { key, keyId = DEFAULT_KEY_ID } = parse(single, option, "encryption");
  // A computed property, unlike a literal `__proto__`, is always an own property.
  return toResolvedKeys({ [keyId]: key }, keyId);
}

function askProvider(provider: KeyProvider, keyIds: readonly string[]): ResolvedKeys | Promise<ResolvedKeys> {
  let answer: KeySet | Promise<KeySet>;
  try {
    answer = provider(Object.freeze([...keyIds]));
  } catch (error) {
    throw providerFailed(error, keyIds);
  }
  if (!isThenable(answer)) return keysOf(answer, "encryption.provider()");
  return Promise.resolve(answer).then(
    (set) => keysOf(set, "encryption.provider()"),
    (error: unknown) => {
      throw providerFailed(error, keyIds);
    },
  );
}

function keysOf(set: unknown, name: string): ResolvedKeys {
  const { keys, current } = parse(several, set, name);
  return toResolvedKeys(keys, current);
}

function shapeOf(option: unknown): () => z.ZodType {
  if (hasOwn(option, "provider")) return provided;
  return hasOwn(option, "keys") ? several : single;
}

function parse<T>(type: () => z.ZodType<T>, value: unknown, name: string): T {
  const result = type().safeParse(value);
  if (result.success) return result.data;
  const { issues } = result.error;
  const unknown = issues.flatMap((issue) => (issue.code === "unrecognized_keys" ? issue.keys : []));
  const misspelt = unknown.filter((key) => !NAMES.includes(key));
  if (misspelt.length > 0) {
    throw new TurnsError("INVALID_OPTION", { ...unknownOption(misspelt, NAMES, [name]), data: { option: "encryption" } });
  }
  const path = unknown.length > 0 ? "" : (issues[0]?.path.join(".") ?? "");
  const found = value === null ? "null" : Array.isArray(value) ? "an array" : `a value of type ${typeof value}`;
  throw new TurnsError("INVALID_OPTION", {
    problem:
      path === ""
        ? `Option ${JSON.stringify(name)} is ${found} that fits none of its forms.`
        : `Option ${JSON.stringify(`${name}.${path}`)} is missing or of the wrong type.`,
    remedy: `Pass ${path === "" ? `exactly one of ${SHAPES}` : issues[0]?.message}; docs/encryption.md shows its forms.`,
    data: { option: "encryption" },
  });
}

const providerFailed = (cause: unknown, keyIds: readonly string[]): TurnsError =>
  new TurnsError("KEY_PROVIDER_FAILED", {
    problem: 'Option "encryption.provider" threw, or rejected; its error is the cause.',
    remedy: "Make the keys available, then open the database again; nothing was written.",
    data: { keyIds: [...keyIds] },
    cause,
  });

function hasOwn<K extends string>(value: unknown, key: K): value is Record<K, unknown> {
  return typeof value === "object" && value !== null && Object.hasOwn(value, key);
}

function isThenable<T>(value: T | Promise<T>): value is Promise<T> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === "function";
}

/** 32 random bytes: as bytes, as 64 hexadecimal digits, or as base64 (also base64url, also without padding). */
export type KeyInput = Uint8Array | string;

/** A master key. A `KeyObject` isn't printed by loggers or by `JSON.stringify`. */
export interface MasterKey {
  readonly id: string;
  readonly key: KeyObject;
}

/** Master keys, checked. `current` seals; the key that a row names opens it. */
export interface ResolvedKeys {
  readonly current: MasterKey;
  readonly byId: ReadonlyMap<string, MasterKey>;
}

/**
 * Checks a set of keys, and copies them.
 *
 * @param input key by key id
 * @throws {TurnsError} INVALID_OPTION for a malformed id or key, for one key under two ids, and if `current` is not among them
 */
function toResolvedKeys(input: Readonly<Record<string, unknown>>, current: string): ResolvedKeys {
  const byId = new Map<string, MasterKey>();
  for (const [id, value] of Object.entries(input)) {
    if (!isKeyId(id)) throw refused("The id of an encryption key", KEY_ID_RULE, `an id of ${id.length} characters`);
    const key = createSecretKey(keyBytes(value, id));
    const twin = [...byId.values()].find((other) => other.key.equals(key));
    if (twin !== undefined) throw refused(nameOf(id), "another key than the rest", `the same key as ${JSON.stringify(twin.id)}`);
    byId.set(id, { id, key });
  }
  const found = byId.get(current);
  if (found === undefined) {
    const ids = [...byId.keys()].map((id) => JSON.stringify(id)).join(", ");
    throw refused("Option `encryption.current`", `one of the key ids given (${ids})`, "an id that is not among them");
  }
  return { current: found, byId };
}

/** Parses a key. Errors never contain any part of a key, not even of a malformed one: it's still close to a secret. */
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
  // The last character carries two bits that aren't part of the key. If they are set, something was mistyped.
  const canonical = text.replaceAll("-", "+").replaceAll("_", "/").replace("=", "");
  return bytes.toString("base64").replace("=", "") === canonical ? bytes : undefined;
}

/** Refuses what 32 random bytes never look like (odds below 10^-13): one repeated byte, or a line of text. */
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
  return `The encryption key ${JSON.stringify(id)}`;
}

const refused = (what: string, expected: string, found: string, remedy?: string): TurnsError =>
  new TurnsError("INVALID_OPTION", {
    problem: `${what} must be ${expected}, and is ${found}.`,
    remedy: remedy ?? "Correct the option `encryption`, or what its provider returns.",
    data: { option: "encryption" },
  });
