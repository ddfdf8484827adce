/** What a copy answers for a value that holds anything it cannot copy exactly. */
export const NO_COPY: unique symbol = Symbol("no copy");

/** The key of own symbols is looked for with this: a listing of nothing is the common case. */
export const symbolsOf = Object.getOwnPropertySymbols;

/** Copies a part, or answers {@link NO_COPY}. */
export type CopyPart = (value: unknown) => unknown;

/** True only if the part is saved as the same text as the one the copy was made of. */
export type SamePart = (copy: unknown, value: unknown) => boolean;

/** How the instances of one class are copied and compared. */
export interface Copier<T extends object = object> {
  /** A copy that nothing but its holder can change; {@link NO_COPY} where the codec would do more than copy. */
  copy(value: T, part: CopyPart): unknown;
  /** The first is a copy this copier made, the second any object with the same prototype. */
  same(copy: T, value: T, part: SamePart): boolean;
}
