import { TurnsError } from "../errors";
import { isStackOverflow, unserializable } from "./failures";
import type { EncodeOptions } from "./options";
import { Writer } from "./writer";

/**
 * A value as JSON text from which {@link decode} makes an equal value of the same types. Plain JSON values give what
 * `JSON.stringify` gives; a list without holes gives `[` + the texts of its elements, joined by commas + `]`. The value is not
 * changed; what is referenced twice is written twice. An error of a class of one's own comes back as the built-in class it extends,
 * with its name and everything it holds, but `constructor.name` and `instanceof` differ.
 * @throws UNSERIALIZABLE_VALUE, with the path to the culprit in the message and in `data.path`, for functions, symbols, cycles,
 * unknown classes, `arguments`, bytes in shared or resizable memory, values whose prototype was exchanged, getters and `toJSON` that
 * throw, and more than 2,000 levels of nesting
 */
export function encode(value: unknown, options?: EncodeOptions): string {
  return writing(options, (writer) => writer.value(value));
}

/** Runs a writer of one value; whatever it throws comes out as UNSERIALIZABLE_VALUE. */
export function writing<T>(options: EncodeOptions | undefined, write: (writer: Writer) => T): T {
  const writer = new Writer(options?.classInstances === "plain", options?.written);
  try {
    return write(writer);
  } catch (error) {
    if (TurnsError.is(error, "UNSERIALIZABLE_VALUE")) throw error;
    if (isStackOverflow(error)) throw unserializable(writer.path(), "nesting too deep for the stack");
    throw unserializable(writer.path(), "a value that throws when it is read", error);
  }
}
