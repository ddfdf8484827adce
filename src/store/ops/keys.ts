import { TurnsError } from "../../errors";
import type { FoundInDatabase } from "../../sealing";
import type { Program } from "../program";
import type { Session } from "../session";

/** The database's secret is stored once per master key, each wrapped under it, as `key:<id>`. */
const SECRETS = "SELECT value FROM langgraph_settings WHERE name >= 'key:' AND name < 'key;' ORDER BY name";
const NAMED_SECRETS = "SELECT name, value FROM langgraph_settings WHERE name >= 'key:' AND name < 'key;' ORDER BY name";
const SECRET = "SELECT 1 FROM langgraph_settings WHERE name = ?";
const STORE = "INSERT INTO langgraph_settings (name, value) VALUES (?, ?)";
const RETIRE = "DELETE FROM langgraph_settings WHERE name >= 'key:' AND name < 'key;' AND name <> ?";
/** True only if nothing was ever saved: deleted content may still be readable in free pages. */
const UNUSED = `SELECT 1 FROM langgraph_settings WHERE name = 'threads' AND value = 0 AND NOT EXISTS (SELECT 1 FROM langgraph_checkpoints)`;

export function* foundKeys(session: Session): Program<FoundInDatabase> {
  const wrapped = yield* wrappedKeys(session);
  return { wrapped, empty: wrapped.length === 0 && (yield* session.get(UNUSED)) !== undefined };
}

export function* wrappedKeys(session: Session): Program<Uint8Array[]> {
  const secrets = yield* session.all<{ value: unknown }>(SECRETS);
  return secrets.map(({ value }) => (value instanceof Uint8Array ? value : new Uint8Array(0)));
}

export function* storeSecret(session: Session, keyId: string, wrapped: Uint8Array): Program {
  yield* session.run(STORE, `key:${keyId}`, wrapped);
}

/**
 * Refuses to write plain text into a file that another process has encrypted.
 * @throws {TurnsError} ENCRYPTED
 */
export function* refuseEncrypted(session: Session, what: string): Program {
  if ((yield* session.get(SECRETS)) === undefined) return;
  throw new TurnsError("ENCRYPTED", {
    problem: `${what} can't be saved: the database is encrypted, and no keys were given.`,
    remedy: "Nothing was saved. Use a TurnSaver with the option `encryption`, or another file.",
  });
}

/** Refuses to seal under a key that another process has retired: nobody could open the data any more. */
export function* refuseRetiredKey(session: Session): Program {
  const { keyId } = session.sealing;
  if (session.isKeyCurrent) return yield* session.guardKey();
  session.isKeyCurrent = keyId === undefined || (yield* session.get(session.sharing(SECRET), `key:${keyId}`)) !== undefined;
  if (session.isKeyCurrent) return;
  throw new TurnsError("UNKNOWN_KEY", {
    problem: `The encryption key ${JSON.stringify(keyId)} was retired by rotateKeys().`,
    remedy: "Nothing was saved. Open the database again with the key that is current now.",
    data: { keyId },
  });
}

/**
 * Forgets all keys but the current one, unless something is still sealed under them. They are removed first: then nobody saves
 * under them while `isNeeded` looks.
 *
 * @returns how many; undefined if they stay
 */
export function* retireOtherKeys(session: Session, isNeeded: () => Program<boolean>): Program<number | undefined> {
  const current = `key:${session.sealing.keyId ?? ""}`;
  const others = (yield* session.all<{ name: string; value: Uint8Array }>(NAMED_SECRETS)).filter(({ name }) => name !== current);
  session.isKeyCurrent = false;
  yield* session.run(RETIRE, current);
  if (!(yield* isNeeded())) return others.length;
  for (const { name, value } of others) yield* session.run(STORE, name, value);
  return undefined;
}
