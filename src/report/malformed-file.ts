import { TurnsError } from "../errors";

/** Why a text is no progress file, and where. Becomes a {@link TurnsError} where the name of the file is known. */
export interface Problem {
  /** From 1. */
  line: number;
  expected: string;
  found: string;
}

/** Thrown by the parser's parts, caught by the parser. */
export class Malformed extends Error {
  readonly problem: Problem;

  /** @param at the line's index, from 0 */
  constructor(at: number, expected: string, found: string) {
    super(`line ${at + 1}: expected ${expected}; found ${found}`);
    this.problem = { line: at + 1, expected, found };
  }
}

export function malformedFile(name: string, problem: Problem): TurnsError {
  const { line, expected, found } = problem;
  return new TurnsError("CHECKPOINT_FILE_MALFORMED", {
    what: `${name}, line ${line}`,
    expected,
    found,
    remedy: "Correct the line, or move the file away to have a new one written; it was not changed.",
    data: { file: name, line },
  });
}
