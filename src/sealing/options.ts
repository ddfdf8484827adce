import { z } from "zod";
import { TurnsError } from "../errors";
import { toResolvedKeys, type KeyInput, type ResolvedKeys } from "./keys";

/** Keys by id, and the id of the one that seals from now on. The others open what was sealed under them. */
export interface KeySet {
  keys: Readonly<Record<string, KeyInput>>;
  current: string;
}

/**
 * Fetches keys, from a vault for instance. It is called once, when the database is opened, with the ids of all keys under which the
 * database holds data (none, if it is new), and returns those and the current one: saving and loading never wait for a key.
 */
export type KeyProvider = (keyIds: readonly string[]) => KeySet | Promise<KeySet>;

/** One key (its id is `"default"` unless given), several, or something that fetches them. */
export type EncryptionOption = { key: KeyInput; keyId?: string } | KeySet | { provider: KeyProvider };

export const DEFAULT_KEY_ID = "default";

const present = z.unknown().refine((value) => value !== undefined, "a key");
const single = z.strictObject({ key: present, keyId: z.string("a string").optional() });
const several = z.strictObject({
  keys: z.record(z.string(), z.unknown(), "an object of keys by id"),
  current: z.string("a key id"),
});
const provided = z.strictObject({
  provider: z.custom<KeyProvider>((value) => typeof value === "function", "a function that returns keys"),
});

/**
 * For the options of a saver. Only the shape is checked here; the keys are when they are resolved. Refusals are this room's own
 * errors and not zod's issues, because what reports an issue quotes the value, and here the value may be a key.
 *
 * @throws {TurnsError} INVALID_OPTION
 */
export const encryptionSchema = z
  .unknown()
  .optional()
  .transform((option): EncryptionOption | undefined => {
    if (option !== undefined) parse(shapeOf(option), option, "encryption");
    return option as EncryptionOption | undefined;
  });

/**
 * The keys an option names. Answers at once, unless a provider answers with a promise.
 *
 * @param keyIds those under which the database holds data; see `sealedKeyIds`
 * @throws {TurnsError} INVALID_OPTION for what is no option, no key, or a key of the wrong kind
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

function shapeOf(option: unknown): z.ZodType {
  if (hasOwn(option, "provider")) return provided;
  return hasOwn(option, "keys") ? several : single;
}

function parse<T>(type: z.ZodType<T>, value: unknown, name: string): T {
  const result = type.safeParse(value);
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  const shapes = "{ key, keyId? }, { keys, current } or { provider }";
  const path = issue?.path.join(".") ?? "";
  throw new TurnsError("INVALID_OPTION", {
    what: `option ${JSON.stringify(path === "" ? name : `${name}.${path}`)}`,
    expected: issue === undefined || path === "" ? `exactly one of ${shapes}` : issue.message,
    found: `${value === null ? "null" : Array.isArray(value) ? "an array" : `a value of type ${typeof value}`} that does not fit`,
    remedy: "Correct the option; docs/encryption.md shows its forms.",
    data: { option: "encryption" },
  });
}

function providerFailed(cause: unknown, keyIds: readonly string[]): TurnsError {
  return new TurnsError("KEY_PROVIDER_FAILED", {
    what: 'option "encryption.provider"',
    expected: "keys",
    found: "an error, which is the cause of this one",
    remedy: "Make the keys available, then open the database again; nothing was written.",
    data: { keyIds: [...keyIds] },
    cause,
  });
}

function hasOwn<K extends string>(value: unknown, key: K): value is Record<K, unknown> {
  return typeof value === "object" && value !== null && Object.hasOwn(value, key);
}

function isThenable<T>(value: T | Promise<T>): value is Promise<T> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === "function";
}
