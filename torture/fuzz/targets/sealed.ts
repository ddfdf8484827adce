import { randomBytes } from "node:crypto";
import { createDatabaseSecret, encryptedSealing, resolveKeys, unwrapSecret, wrapSecret } from "../../../src/testing-internal";
import { answer } from "../answer";
import { CANARY } from "../judge";
import { mutatedBytes } from "../mutate";
import type { Random } from "../random";
import { Finding, type Session } from "../target";

const THREADS = ["t", "u"];
const PLACES = [
  ["writes", "", "c", "task", 0, 7],
  ["metadata", "", "c", 7],
] as const;

/** Sealed rows and the wrapped secret: if one is changed, moved or cut, it opens as what was sealed there, or not at all. */
export function open(_random: Random): Session {
  const keys = resolveKeys({ keys: { old: randomBytes(32), new: randomBytes(32) }, current: "new" });
  if (keys instanceof Promise) throw new Error("these keys are given, not fetched");
  const older = resolveKeys({ keys: { old: Buffer.from(keys.byId.get("old")!.key.export()) }, current: "old" });
  if (older instanceof Promise) throw new Error("these keys are given, not fetched");
  const secret = createDatabaseSecret();
  const sealing = encryptedSealing(keys, secret);
  const before = encryptedSealing(older, secret);
  const sealed = new Map<string, string>();
  const seeds: Buffer[] = [];
  for (const [index, thread] of THREADS.entries()) {
    for (const place of PLACES) {
      const text = JSON.stringify({ of: CANARY, thread, place, index });
      for (const by of [sealing, before]) {
        const bytes = by.seal(thread, place, text) as Buffer;
        sealed.set(bytes.toString("hex"), text);
        seeds.push(bytes);
      }
    }
  }
  const wrapped = wrapSecret(secret, keys.current);
  return {
    seeds: [...seeds, wrapped],
    mutate: (input, other, by) => {
      // The beginning says which key, the end proves the rest: they are changed more often than chance would have it.
      if (by.once(8)) return Buffer.concat([other.subarray(0, by.below(40)), input.subarray(by.below(40))]);
      return by.once(8) ? input.subarray(0, input.length - by.below(30)) : mutatedBytes(input, other, by);
    },
    feed: (input) => {
      const words: string[] = [];
      const own = sealed.get(input.toString("hex"));
      for (const thread of THREADS) {
        for (const place of PLACES) {
          words.push(
            answer(
              () => sealing.open(thread, place, input),
              (text) =>
                text === own && isOf(text, thread, place) ? undefined : "bytes that opened as what was not sealed there",
            ),
          );
        }
      }
      answer(
        () => unwrapSecret(input, keys),
        (opened) => ((opened as Buffer).equals(secret) && input.equals(wrapped) ? undefined : "another secret"),
      );
      answer(
        () => sealing.open("t", PLACES[0], input.toString("latin1")),
        () => "a plain text in the place of a sealed one",
      );
      return words.join(" / ").slice(0, 200);
    },
    close: () => undefined,
  };
}

function isOf(text: unknown, thread: string, place: readonly unknown[]): boolean {
  if (typeof text !== "string") throw new Finding("a sealed row that opens as no text");
  const content = JSON.parse(text) as { thread: string; place: unknown[] };
  return content.thread === thread && JSON.stringify(content.place) === JSON.stringify(place);
}
