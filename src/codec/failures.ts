import { constants } from "node:buffer";
import { TurnsError } from "../errors";

/** The error for a value that can't be saved. It keeps its parts, so that a caller can add where the value is. */
export class Unserializable extends TurnsError {
  /** Node prints the error under this name. */
  static override readonly name = "TurnsError";

  /**
   * @param path where the value is, as {@link renderPath} writes it; empty for the value itself
   * @param found what is there, without payload
   */
  constructor(
    readonly path: string,
    readonly found: string,
    cause?: unknown,
  ) {
    super("UNSERIALIZABLE_VALUE", {
      problem: `A value can't be saved: ${path === "" ? "it is" : `at ${path} there is`} ${found}.`,
      remedy: "Remove it from the state, replace it by plain data, or keep it in an untracked channel.",
      data: { path },
      cause,
    });
  }
}

export function unserializable(path: string, found: string, cause?: unknown): TurnsError {
  return new Unserializable(path, found, cause);
}

/**
 * The error for a text that isn't a saved value. The reason never quotes the text, and the underlying error isn't attached:
 * messages of the JSON and RegExp parsers contain the payload.
 */
export function undecodable(reason: string): TurnsError {
  return new TurnsError("UNDECODABLE_VALUE", {
    problem: `A saved value can't be read: ${reason}.`,
    remedy: "The row was changed, is damaged, or comes from a newer version; restore it or delete it.",
  });
}

/** What there is if reading a value, or writing its text, failed with an error that isn't ours. */
export function foundAt(error: unknown): string {
  if (isStackOverflow(error)) return "nesting too deep for the stack";
  return isTooLong(error)
    ? `text that makes the saved value longer than ${mostText()}, the most that a text of JavaScript has`
    : "a value that throws when it is read";
}

/** Not when it is loaded: the first number in a language's form takes 20 ms (S8.8). */
const mostText = (): string => `${constants.MAX_STRING_LENGTH.toLocaleString("en")} characters`;

/** True if a text would be longer than JavaScript's are. Node's own error for bytes may be of another realm. */
function isTooLong(error: unknown): boolean {
  const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown };
  return code === "ERR_STRING_TOO_LONG" || message === "Invalid string length";
}

/** True for a stack overflow of the JavaScript engine. */
export function isStackOverflow(error: unknown): boolean {
  return error instanceof Error && error.name === "RangeError" && /call stack/i.test(error.message);
}
