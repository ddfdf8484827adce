import fc from "fast-check";
import { anyValue } from "../../../__tests__/support/arb-values";
import {
  chunkAddresses,
  decode,
  encode,
  endsOf,
  INSTANCE_CLASSES,
  Serialized,
  withReferences,
} from "../../../src/testing-internal";
import { answer } from "../answer";
import { CANARY, wrongInValue } from "../judge";
import { mutated } from "../mutate";
import type { Random } from "../random";
import type { Session } from "../target";

const ADDRESS = "A".repeat(43);
/** The prototypes of all classes that the codec may build. */
export const KNOWN: ReadonlySet<unknown> = new Set<unknown>([
  Serialized.prototype,
  ...INSTANCE_CLASSES.map(({ make }) => Object.getPrototypeOf(make()) as unknown),
]);

/** Texts of all that can be saved. */
export function savedTexts(random: Random, count: number): string[] {
  const values = fc.sample(anyValue, { numRuns: count, seed: random.below(2 ** 31) });
  return values.map((value) => encode({ note: CANARY, value }));
}

/**
 * Every text in, value or named error out: `decode`, and all that looks into texts before they are decoded.
 *
 * @param read in the place of `decode`, to see whether a wrong one is found
 */
export function open(random: Random, read: typeof decode = decode): Session {
  const texts = [...savedTexts(random, 200), `{"~":"chunk","v":"${ADDRESS}"}`, `[1,{"~":"serde","t":"json","v":"e30="}]`];
  return {
    seeds: texts.map((text) => Buffer.from(text)),
    mutate: (input, other, by) => Buffer.from(mutated(input.toString(), other.toString(), by)),
    feed: (input) => {
      const text = input.toString();
      const words = answer(
        () => read(text, (address) => ({ of: address })),
        (value) => wrongInValue(value, KNOWN) ?? wrongAsJson(text, value) ?? wrongAgain(value, read),
      );
      answer(() => chunkAddresses(text));
      answer(() => withReferences(text, () => ADDRESS));
      answer(() => endsOf(text));
      return words;
    },
    close: () => undefined,
  };
}

/** A text without tags is JSON and nothing else. */
function wrongAsJson(text: string, value: unknown): string | undefined {
  const plain = JSON.stringify(JSON.parse(text));
  return plain.includes('"~"') || JSON.stringify(value) === plain ? undefined : "JSON that is read as something else";
}

/** What was read can be written, unless it holds what nobody can write, and reads as the same again. */
function wrongAgain(value: unknown, read: typeof decode): string | undefined {
  const text = encoded(value);
  if (text === undefined) return undefined;
  // Compared as texts: comparing asks messages for their class, which theirs may forbid (an own `constructor`).
  return encode(read(text)) === text ? undefined : "a decoded value that is written and read as another one";
}

function encoded(value: unknown): string | undefined {
  try {
    return encode(value);
  } catch {
    return undefined;
  }
}
