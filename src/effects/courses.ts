import type { TurnsError } from "../errors";

/** What is known of one attempt of a node task. */
export interface Course {
  /** How many effects of a name were called. */
  counts: Map<string, number>;
  /** Which row each call has taken, by the call's id. */
  taken: Map<string, string>;
  /** Rows of effects that failed, or whose outcome is not known. */
  unhappy: Set<string>;
  /** By name or row, refusals after which nobody knows what happened. While there is one, the node must not end well. */
  refused: Map<string, TurnsError>;
}

/** Follows each attempt, so that a re-run numbers its effects the same way. */
export class Courses {
  readonly #of = new WeakMap<object, Course>();

  of(attempt: object): Course {
    let course = this.#of.get(attempt);
    if (course === undefined) {
      course = { counts: new Map(), taken: new Map(), unhappy: new Set(), refused: new Map() };
      this.#of.set(attempt, course);
    }
    return course;
  }
}

/** Each name by itself. */
export function nextOrdinal({ counts }: Course, name: string): number {
  const number = counts.get(name) ?? 0;
  counts.set(name, number + 1);
  return number;
}
