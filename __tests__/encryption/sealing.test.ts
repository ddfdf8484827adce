import { createHash, randomBytes } from "node:crypto";
import { inspect } from "node:util";
import fc from "fast-check";
import { z } from "zod";
import {
  createDatabaseSecret,
  encodeSealedParts as encodeParts,
  encryptedSealing,
  type EncryptionOption,
  encryptionSchema,
  type Identity,
  type KeySet,
  plainSealing,
  type ResolvedKeys,
  resolveKeys,
  sealedKeyId,
  sealedKeyIds,
  type Sealing,
  TurnsError,
  type TurnsErrorCode,
  unlock,
  unwrapSecret,
  wrapSecret,
} from "../../src/testing-internal";

const key = () => randomBytes(32);
const oldKey = key();
const newKey = key();
const secret = createDatabaseSecret();
const keys = resolveKeys({ key: oldKey, keyId: "2024" });
const sealing = encryptedSealing(keys, secret);
const row: Identity = ["langgraph_writes", "ns", "c1", 0, "channel"];

const text = fc.string({ unit: "binary" });
const threadId = fc.string({ unit: "binary", minLength: 1, maxLength: 8 });
/** Few letters and the separators of the encoding itself, so that lists that look alike are common. */
const tricky = fc.string({
  unit: fc.constantFrom("a", "1", ":", ";", "s", "z", "n", "j", '"', ",", "\ud800", "\udc00"),
  maxLength: 4,
});
const finite = fc.double({ noNaN: true, noDefaultInfinity: true });
const identity = fc.array(fc.oneof(tricky, fc.integer({ min: -2, max: 12 }), finite), { maxLength: 5 });

/** The error of `work`, which must have one of the codes. */
function refusal(work: () => unknown, ...codes: TurnsErrorCode[]): TurnsError {
  try {
    work();
  } catch (error) {
    if (!TurnsError.is(error)) throw error;
    expect(codes).toContain(error.code);
    return error;
  }
  throw new Error(`expected ${codes.join(" or ")}, and nothing was thrown`);
}

function bytesOf(stored: string | Buffer): Buffer {
  if (typeof stored === "string") throw new Error("not sealed");
  return stored;
}

describe.each<[string, Sealing]>([
  ["plain", plainSealing],
  ["encrypted", sealing],
])("%s: what both have in common", (name, either) => {
  test("a text is restored as it was", () => {
    expect(either.encrypted).toBe(name === "encrypted");
    fc.assert(
      fc.property(threadId, identity, text, (thread, id, content) => {
        expect(either.open(thread, id, either.seal(thread, id, content))).toBe(content);
      }),
    );
  });

  test("texts of every kind and size are restored", () => {
    for (const content of ["", "\ufeff{}", "\0", "ä€😀", "x".repeat(3_000_000), "😀".repeat(100_000)]) {
      expect(either.open("t", row, either.seal("t", row, content)) === content).toBe(true);
    }
  });

  test("addresses within a thread are equal iff the texts are", () => {
    fc.assert(
      fc.property(threadId, text, text, (thread, a, b) => {
        expect(either.address(thread, a) === either.address(thread, b)).toBe(a === b);
        expect(either.address(thread, a)).toBe(either.address(thread, a));
        expect(either.address(thread, a)).toMatch(/^[A-Za-z0-9_-]{43}$/);
      }),
    );
  });

  test("checksums are equal iff the parts are", () => {
    const parts = fc.array(fc.oneof(tricky, fc.integer({ min: -2, max: 12 }), fc.constantFrom(null, undefined)), {
      maxLength: 4,
    });
    // What the database gives back: one NULL, one zero.
    const asStored = (list: readonly unknown[]) => JSON.stringify(list.map((part) => (part === undefined ? null : part)));
    fc.assert(
      fc.property(parts, parts, tricky, tricky, (a, b, s, t) => {
        expect(either.checksum(s, ...a) === either.checksum(t, ...b)).toBe(s === t && asStored(a) === asStored(b));
        expect(either.checksum(s, ...a)).toMatch(/^[A-Za-z0-9_-]{43}$/);
      }),
      { numRuns: 2_000 },
    );
  });

  test.each<[string, unknown[], unknown[]]>([
    ["borders", ["a", "b"], ["ab"]],
    ["types", [1], ["1"]],
    ["empty against nothing", [""], []],
    ["NULL against empty", [null], [""]],
    ["lone surrogates", ["\ud800"], ["\udfff"]],
    ["a lone surrogate against its replacement", ["\ud800"], ["\ufffd"]],
    ["its own encoding inside", ["a", "b"], ["as1:b"]],
  ])("checksums tell %s apart", (_name, a, b) => {
    expect(either.checksum("t", ...(a as string[]))).not.toBe(either.checksum("t", ...(b as string[])));
  });

  test("what a database does not give back is refused, not changed", () => {
    expect(either.checksum("t", undefined, -0)).toBe(either.checksum("t", null, 0));
    for (const number of [NaN, Infinity, -Infinity]) refusal(() => either.checksum("t", number), "STATE_INVARIANT_VIOLATED");
    refusal(() => either.seal("t", row, "a\ud800"), "UNSERIALIZABLE_VALUE");
    refusal(() => either.address("t", "\udc00"), "UNSERIALIZABLE_VALUE");
  });
});

test("the encoding of parts can be undone, so no two lists share one", () => {
  const decode = (encoded: string): unknown[] => {
    const parts: unknown[] = [];
    for (let at = 0; at < encoded.length;) {
      const rest = encoded.slice(at);
      if (rest.startsWith("j")) {
        const json = /^j("(?:[^"\\]|\\.)*")/su.exec(rest)![1]!;
        parts.push(JSON.parse(json));
        at += 1 + json.length;
        continue;
      }
      const [whole, tag, head] = /^([snz])(.*?)[:;]/su.exec(rest)!;
      at += whole.length;
      if (tag === "s") parts.push(encoded.slice(at, (at += Number(head))));
      else parts.push(tag === "n" ? Number(head) : null);
    }
    return parts;
  };
  fc.assert(
    fc.property(fc.array(fc.oneof(tricky, text, finite, fc.constant(null))), (parts) => {
      const encoded = encodeParts(parts);
      expect(encoded.isWellFormed()).toBe(true);
      expect(decode(encoded)).toEqual(parts.map((part) => (part === 0 ? 0 : part)));
    }),
    { numRuns: 1_000 },
  );
});

describe("a database without encryption", () => {
  test("stores texts as they are, under their SHA-256", () => {
    expect(plainSealing.seal("t", row, "hello")).toBe("hello");
    expect(plainSealing).toMatchObject({ encrypted: false, keyId: undefined, header: Buffer.alloc(0) });
    expect(plainSealing.address("t", "hello")).toBe(createHash("sha256").update("hello").digest("base64url"));
  });

  test("refuses sealed bytes", () => {
    const error = refusal(() => plainSealing.open("t", row, sealing.seal("t", row, "hello")), "ENCRYPTED");
    expect(error.message).toContain("encrypted; pass the option `encryption`");
    refusal(() => plainSealing.open("t", row, new Uint8Array(0)), "ENCRYPTED");
  });
});

describe("sealed bytes", () => {
  test("show nothing of the text but its length", () => {
    const sealed = bytesOf(sealing.seal("t", row, "confidential"));
    expect(sealed.length).toBe(2 + "2024".length + 4 + 12 + "confidential".length + 16);
    expect(sealed.includes("confidential")).toBe(false);
    expect(sealedKeyId(sealed)).toBe("2024");
  });

  test("never repeat a nonce", () => {
    const nonces = new Set<string>();
    for (let i = 0; i < 10_000; i++)
      nonces.add(
        bytesOf(sealing.seal("t", row, "x"))
          .subarray(10, 22)
          .toString("hex"),
      );
    expect(nonces.size).toBe(10_000);
  });

  test("are refused after any change of a single byte", () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 20 }), fc.integer({ min: 1, max: 255 }), (content, mask) => {
        const sealed = bytesOf(sealing.seal("t", row, content));
        for (let at = 0; at < sealed.length; at++) {
          const changed = Buffer.from(sealed);
          changed[at] = changed[at]! ^ mask;
          const error = refusal(() => sealing.open("t", row, changed), "CHECKPOINT_CORRUPTED");
          expect(error.data).toEqual({ threadId: "t", identity: row });
        }
      }),
    );
  });

  test("are refused cut, extended, and empty", () => {
    const sealed = bytesOf(sealing.seal("t", row, "some text"));
    for (let length = 0; length < sealed.length; length++) {
      refusal(() => sealing.open("t", row, sealed.subarray(0, length)), "CHECKPOINT_CORRUPTED");
      if (length > 0) refusal(() => sealing.open("t", row, sealed.subarray(length)), "CHECKPOINT_CORRUPTED");
    }
    refusal(() => sealing.open("t", row, Buffer.concat([sealed, Buffer.of(0)])), "CHECKPOINT_CORRUPTED");
  });

  test("are refused in another row or thread", () => {
    const same = (a: Identity, b: Identity) => a.length === b.length && a.every((part, i) => part === b[i]);
    fc.assert(
      fc.property(tricky, identity, tricky, identity, (thread, id, otherThread, otherId) => {
        const sealed = sealing.seal(thread, id, "text");
        if (thread === otherThread && same(id, otherId)) expect(sealing.open(otherThread, otherId, sealed)).toBe("text");
        else refusal(() => sealing.open(otherThread, otherId, sealed), "CHECKPOINT_CORRUPTED");
      }),
      { numRuns: 1_000 },
    );
  });

  test("are refused after a change of any one part of the identity, and the message names the row", () => {
    const sealed = sealing.seal("t", row, "text");
    row.forEach((part, i) => {
      const other = row.with(i, typeof part === "number" ? part + 1 : `${part}x`);
      const error = refusal(() => sealing.open("t", other, sealed), "CHECKPOINT_CORRUPTED");
      expect(error.message).toContain(JSON.stringify(other));
      expect(error.data).toEqual({ threadId: "t", identity: other });
    });
    refusal(() => sealing.open("t", row.slice(1), sealed), "CHECKPOINT_CORRUPTED");
    refusal(() => sealing.open("t", row.with(3, "0"), sealed), "CHECKPOINT_CORRUPTED");
  });

  test("are refused in another database with the same key", () => {
    const other = encryptedSealing(keys, createDatabaseSecret());
    refusal(() => other.open("t", row, sealing.seal("t", row, "text")), "CHECKPOINT_CORRUPTED");
  });

  test("open from any Uint8Array, also one that is a window of a larger buffer", () => {
    const sealed = bytesOf(sealing.seal("t", row, "text"));
    const roomy = new Uint8Array(sealed.length + 20);
    roomy.set(sealed, 7);
    expect(sealing.open("t", row, roomy.subarray(7, 7 + sealed.length))).toBe("text");
  });

  test("a plain text is refused where bytes are expected", () => {
    const error = refusal(() => sealing.open("t", row, "payload"), "NOT_ENCRYPTED");
    expect(error.data).toEqual({ threadId: "t", identity: row });
    expect(error.message).not.toContain("payload");
  });
});

describe("the keys of threads", () => {
  test("addresses and checksums differ between threads, databases, and from the plain ones", () => {
    const other = encryptedSealing(keys, createDatabaseSecret());
    fc.assert(
      fc.property(text, threadId, threadId, (content, a, b) => {
        expect(sealing.address(a, content) === sealing.address(b, content)).toBe(a === b);
        expect(sealing.address(a, content)).not.toBe(other.address(a, content));
        expect(sealing.address(a, content)).not.toBe(plainSealing.address(a, content));
        expect(sealing.checksum(a, content)).not.toBe(sealing.address(a, content));
      }),
    );
  });

  test("addresses and checksums have different keys", () => {
    const encoded = encodeParts(["t", "text"]);
    expect(plainSealing.checksum("t", "text")).toBe(plainSealing.address("t", encoded));
    expect(sealing.checksum("t", "text")).not.toBe(sealing.address("t", encoded));
  });

  test("those dropped from the cache are derived again, the same", () => {
    const fresh = encryptedSealing(keys, secret);
    const address = fresh.address("t0", "text");
    const sealed = fresh.seal("t0", row, "text");
    for (let i = 1; i < 2_500; i++) fresh.address(`t${i}`, "");
    expect(fresh.address("t0", "text")).toBe(address);
    expect(fresh.open("t0", row, sealed)).toBe("text");
  });

  test("a thread id may be as long as it likes", () => {
    const long = "t".repeat(5_000);
    expect(sealing.open(long, row, sealing.seal(long, row, "text"))).toBe("text");
  });
});

describe("rotation", () => {
  const both = resolveKeys({ keys: { "2024": oldKey, "2025": newKey }, current: "2025" });
  const rotated = encryptedSealing(both, secret);

  test("seals under the new key, opens what the old one sealed, and keeps addresses and checksums", () => {
    const before = sealing.seal("t", row, "text");
    const after = rotated.seal("t", row, "text");
    expect(sealedKeyId(bytesOf(after))).toBe("2025");
    expect(rotated.open("t", row, before)).toBe("text");
    expect(rotated.open("t", row, after)).toBe("text");
    expect(rotated.address("t", "text")).toBe(sealing.address("t", "text"));
    expect(rotated.checksum("t", 1, "a")).toBe(sealing.checksum("t", 1, "a"));
    // What says which rows are done.
    expect(rotated.keyId).toBe("2025");
    expect(bytesOf(after).subarray(0, rotated.header.length)).toEqual(rotated.header);
    expect(bytesOf(before).subarray(0, rotated.header.length)).not.toEqual(rotated.header);
  });

  test("a key that is not given is named", () => {
    const error = refusal(() => sealing.open("t", row, rotated.seal("t", row, "text")), "UNKNOWN_KEY");
    expect(error.data).toMatchObject({ keyId: "2025", threadId: "t", identity: row });
    expect(error.message).toContain('"2025"');
  });

  test("the header cannot be changed to name another known key", () => {
    const sealed = Buffer.from(bytesOf(rotated.seal("t", row, "text")));
    bytesOf(sealing.seal("t", row, "")).copy(sealed, 0, 0, 10);
    expect(sealedKeyId(sealed)).toBe("2024");
    refusal(() => rotated.open("t", row, sealed), "CHECKPOINT_CORRUPTED");
  });

  test("another key under a known id does not open a row", () => {
    const impostor = encryptedSealing(resolveKeys({ key: newKey, keyId: "2024" }), secret);
    refusal(() => impostor.open("t", row, sealing.seal("t", row, "text")), "CHECKPOINT_CORRUPTED");
  });
});

describe("the secret of a database", () => {
  const wrapped = wrapSecret(secret, keys.current);

  test("is restored under the right key, and never looks the same twice", () => {
    expect(createDatabaseSecret()).not.toEqual(createDatabaseSecret());
    expect(unwrapSecret(wrapped, keys)).toEqual(secret);
    expect(wrapSecret(secret, keys.current)).not.toEqual(wrapped);
    expect(wrapped.includes(secret)).toBe(false);
  });

  test("a wrong key, a missing key, and damage are told apart", () => {
    expect(refusal(() => unwrapSecret(wrapped, resolveKeys({ key: newKey, keyId: "2024" })), "WRONG_KEY").data).toEqual({
      keyId: "2024",
    });
    expect(refusal(() => unwrapSecret(wrapped, resolveKeys({ key: oldKey })), "UNKNOWN_KEY").data).toEqual({ keyId: "2024" });
    refusal(() => unwrapSecret(wrapped.subarray(0, 30), keys), "CHECKPOINT_CORRUPTED");
    for (let at = 0; at < wrapped.length; at++) {
      const changed = Buffer.from(wrapped);
      changed[at] = changed[at]! ^ 1;
      refusal(() => unwrapSecret(changed, keys), at < 10 ? "CHECKPOINT_CORRUPTED" : "WRONG_KEY");
    }
  });

  test("a row's bytes do not pass for a secret, nor a secret for a row's", () => {
    refusal(() => unwrapSecret(bytesOf(sealing.seal("t", row, "x".repeat(32))), keys), "WRONG_KEY");
    refusal(() => sealing.open("t", [], wrapped), "CHECKPOINT_CORRUPTED");
  });
});

describe("opening a database", () => {
  const start = (resolved: ResolvedKeys) => {
    const { sealing: opened, toStore } = unlock(resolved, { wrapped: [], empty: true });
    return { opened, wrapped: toStore!.wrapped };
  };

  test("a new one gets a secret to store, and opens with it from then on", () => {
    const { opened, wrapped } = start(keys);
    expect(sealedKeyIds([wrapped])).toEqual(["2024"]);
    const again = unlock(keys, { wrapped: [wrapped], empty: false });
    expect(again.toStore).toBeUndefined();
    expect(again.sealing.open("t", row, opened.seal("t", row, "text"))).toBe("text");
    expect(again.sealing.address("t", "text")).toBe(opened.address("t", "text"));
  });

  test("a new current key wraps the same secret once more", () => {
    const { opened, wrapped } = start(keys);
    const both = resolveKeys({ keys: { "2024": oldKey, "2025": newKey }, current: "2025" });
    const { sealing: rotated, toStore } = unlock(both, { wrapped: [wrapped], empty: false });
    expect(toStore?.keyId).toBe("2025");
    expect(rotated.address("t", "text")).toBe(opened.address("t", "text"));
    expect(unlock(both, { wrapped: [wrapped, toStore!.wrapped], empty: false }).toStore).toBeUndefined();
    // Once all data is sealed anew and the old row is gone, the old key is no longer needed.
    const alone = unlock(resolveKeys({ key: newKey, keyId: "2025" }), { wrapped: [toStore!.wrapped], empty: false });
    expect(alone.sealing.open("t", row, rotated.seal("t", row, "text"))).toBe("text");
  });

  test("every key it needs is tried, old ones too", () => {
    const { wrapped } = start(keys);
    const wrong = resolveKeys({ keys: { "2024": key(), "2025": newKey }, current: "2025" });
    refusal(() => unlock(wrong, { wrapped: [wrapped], empty: false }), "WRONG_KEY");
    const missing = resolveKeys({ key: newKey, keyId: "2025" });
    refusal(() => unlock(missing, { wrapped: [wrapped], empty: false }), "UNKNOWN_KEY");
  });

  test("plain and encrypted databases are not taken for each other", () => {
    const { wrapped } = start(keys);
    expect(refusal(() => unlock(undefined, { wrapped: [wrapped], empty: false }), "ENCRYPTED").data).toEqual({
      keyIds: ["2024"],
    });
    refusal(() => unlock(keys, { wrapped: [], empty: false }), "NOT_ENCRYPTED");
    expect(unlock(undefined, { wrapped: [], empty: true })).toEqual({ sealing: plainSealing, toStore: undefined });
  });

  test("secrets that differ, or are none, are refused", () => {
    const both = resolveKeys({ keys: { "2024": oldKey, "2025": newKey }, current: "2025" });
    const wrapped = [start(keys).wrapped, start(both).wrapped];
    refusal(() => unlock(both, { wrapped, empty: false }), "CHECKPOINT_CORRUPTED");
    refusal(() => unlock(undefined, { wrapped: [Buffer.from("junk")], empty: false }), "CHECKPOINT_CORRUPTED");
  });
});

describe("the option `encryption`", () => {
  const opens = (resolved: ResolvedKeys) => unwrapSecret(wrapSecret(secret, keys.current), resolved).equals(secret);

  test("a key may be bytes, hexadecimal, base64 or base64url", () => {
    const base64 = oldKey.toString("base64");
    const forms = [oldKey, new Uint8Array(oldKey), oldKey.toString("hex"), oldKey.toString("hex").toUpperCase()];
    for (const form of [...forms, base64, base64.replace("=", ""), oldKey.toString("base64url")]) {
      expect(opens(resolveKeys({ key: form, keyId: "2024" }))).toBe(true);
    }
    expect(resolveKeys({ key: oldKey }).current.id).toBe("default");
  });

  test("a key is copied: overwriting the caller's bytes changes nothing", () => {
    const mine = Buffer.from(oldKey);
    const resolved = resolveKeys({ key: mine, keyId: "2024" });
    mine.fill(0);
    expect(opens(resolved)).toBe(true);
  });

  const passphrase = "correct horse battery staple";
  test.each<[string, unknown]>([
    ["a passphrase", { key: passphrase }],
    ["a passphrase of 32 characters as bytes", { key: Buffer.from("correct horse battery staple 123") }],
    ["31 bytes", { key: randomBytes(31) }],
    ["33 bytes", { key: randomBytes(33) }],
    ["16 bytes in hexadecimal", { key: randomBytes(16).toString("hex") }],
    ["zeros", { key: Buffer.alloc(32) }],
    ["zeros in hexadecimal", { key: "0".repeat(64) }],
    ["base64 with a mistyped end", { key: `${"A".repeat(42)}B` }],
    ["an empty string", { key: "" }],
    ["another typed array", { key: new Uint16Array(16) }],
    ["an array", { key: [...oldKey] }],
    ["null", { key: null }],
    ["no key", {}],
    ["an empty key id", { key: oldKey, keyId: "" }],
    ["a key id with a slash", { key: oldKey, keyId: "a/b" }],
    ["a key id that is too long", { key: oldKey, keyId: "k".repeat(65) }],
    ["a key id that is none", { key: oldKey, keyId: 1 }],
    ["a key that does not exist as current", { keys: { a: oldKey }, current: "b" }],
    ["keys without current", { keys: { a: oldKey } }],
    ["no keys at all", { keys: {}, current: "a" }],
    ["one key under two ids", { keys: { a: oldKey, b: oldKey }, current: "a" }],
    ["two forms at once", { key: oldKey, keys: { a: oldKey }, current: "a" }],
    ["an unknown property", { key: oldKey, algorithm: "rot13" }],
    ["a provider that is no function", { provider: "vault" }],
    ["a provider that returns nothing", { provider: () => undefined }],
    ["a provider that returns a bare key", { provider: () => oldKey }],
    ["a string", oldKey.toString("hex")],
    ["null itself", null],
    ["an array itself", [oldKey]],
  ])("%s is refused", (_name, option) => {
    const error = refusal(() => resolveKeys(option as EncryptionOption), "INVALID_OPTION");
    const said = `${error.message} ${JSON.stringify(error.data)}`;
    for (const form of [oldKey.toString("hex"), oldKey.toString("base64"), passphrase, "horse"]) expect(said).not.toContain(form);
  });

  test("the refusal of a passphrase says what to do instead", () => {
    expect(refusal(() => resolveKeys({ key: passphrase }), "INVALID_OPTION").message).toContain("scryptSync");
  });

  test("its schema takes what is an option, and its refusals quote no key", () => {
    const schema = z.strictObject({ encryption: encryptionSchema() });
    const option = { key: oldKey };
    expect(schema.parse({}).encryption).toBeUndefined();
    expect(schema.parse({ encryption: option }).encryption).toBe(option);
    for (const wrong of [oldKey.toString("hex"), { key: oldKey.toString("hex"), id: "x" }, { keys: oldKey, current: 1 }, null]) {
      const error = refusal(() => schema.safeParse({ encryption: wrong }), "INVALID_OPTION");
      expect(error.message).not.toContain(oldKey.toString("hex"));
    }
  });

  test("resolved keys show nothing when they are printed", () => {
    const shown = inspect(keys, { depth: 9, showHidden: true }) + JSON.stringify(keys);
    expect(shown).not.toContain(oldKey.toString("hex"));
    expect(shown).not.toContain(oldKey.toString("base64"));
    expect(inspect(sealing, { depth: 9, showHidden: true })).not.toContain(secret.subarray(0, 4).toString("hex"));
  });
});

describe("a provider of keys", () => {
  const set: KeySet = { keys: { "2024": oldKey, "2025": newKey }, current: "2025" };

  test("is asked once, for the ids in the database", async () => {
    const asked: (readonly string[])[] = [];
    const provider = (ids: readonly string[]) => (asked.push(ids), Promise.resolve(set));
    const resolved = await resolveKeys({ provider }, ["2024"]);
    const provided = encryptedSealing(resolved, secret);
    expect(provided.open("t", row, sealing.seal("t", row, "text"))).toBe("text");
    expect(asked).toEqual([["2024"]]);
  });

  test("that answers at once makes no promise", () => {
    const resolved = resolveKeys({ provider: () => set });
    expect(resolved).not.toBeInstanceOf(Promise);
    expect((resolved as ResolvedKeys).current.id).toBe("2025");
  });

  test("that fails is told apart from wrong keys", async () => {
    const cause = new Error("vault sealed");
    const rejecting = resolveKeys({ provider: () => Promise.reject(cause) }, ["2024"]);
    await expect(rejecting).rejects.toMatchObject({ code: "KEY_PROVIDER_FAILED", cause, data: { keyIds: ["2024"] } });
    const throwing = () => {
      throw cause;
    };
    expect(refusal(() => resolveKeys({ provider: throwing }), "KEY_PROVIDER_FAILED").cause).toBe(cause);
    const answer = Promise.resolve({ keys: { a: "weak" }, current: "a" });
    await expect(resolveKeys({ provider: () => answer })).rejects.toMatchObject({ code: "INVALID_OPTION" });
  });
});
