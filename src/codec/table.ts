import { types } from "node:util";
import { BYTE_KINDS } from "./bytes";
import { COLLECTION_KINDS } from "./collections";
import { ERROR_KINDS } from "./error-values";
import { INSTANCE_KINDS } from "./instances";
import type { Kind, Read } from "./kind";
import { UNCLASSED_TAGS } from "./unclassed";
import { chainLength, classNameOf, parentOf } from "./prototypes";
import { SCALAR_KINDS } from "./scalars";
import { SERIALIZED_KINDS } from "./serialized";

const KINDS: readonly Kind[] = [
  ...SCALAR_KINDS,
  ...COLLECTION_KINDS,
  ...BYTE_KINDS,
  ...ERROR_KINDS,
  ...INSTANCE_KINDS,
  ...SERIALIZED_KINDS,
];
const BY_PROTOTYPE: ReadonlyMap<object, Kind> = new Map(KINDS.map((kind) => [kind.prototype, kind]));
const BY_NAME: ReadonlyMap<string, Kind> = new Map(KINDS.map((kind) => [kind.tag, kind]));
const READERS: ReadonlyMap<unknown, Read> = new Map([...UNCLASSED_TAGS, ...KINDS.map((kind) => [kind.tag, kind.read] as const)]);

/** All that a text can ask to be built. */
export const READABLE_TAGS: readonly string[] = [...UNCLASSED_TAGS, ...KINDS.map(({ tag }) => [tag] as const)].map(
  ([tag]) => tag,
);

/** The reader of a tag, or undefined for a tag outside the closed set. */
export function readerOf(tag: unknown): Read | undefined {
  return READERS.get(tag);
}

/**
 * The kind of a value, by its prototype. A prototype that is not in the table may still be the same class from another realm or
 * from a second copy of a library; a subclass never passes, since its chain is longer than that of the class.
 */
export function kindFor(value: object, prototype: object): Kind | undefined {
  const known = BY_PROTOTYPE.get(prototype);
  if (known !== undefined) return known;
  const kind = BY_NAME.get(classNameOf(prototype));
  return kind !== undefined && chainLength(prototype) === chainLength(kind.prototype) && kind.accepts(value) ? kind : undefined;
}

/** The first class of the table that a prototype descends from. */
export function nearestKind(prototype: object): Kind | undefined {
  for (let current: object | null = prototype; current !== null; current = parentOf(current)) {
    const kind = BY_PROTOTYPE.get(current);
    if (kind !== undefined) return kind;
  }
  return undefined;
}

/** The built-in class a custom error is saved as: the nearest one it extends. */
export function errorKindFor(value: object, prototype: object): Kind | undefined {
  const kind = nearestKind(prototype);
  if (kind !== undefined && ERROR_KINDS.includes(kind)) return kind;
  const isError = types.isNativeError(value) || Object.prototype.toString.call(value) === "[object DOMException]";
  return isError ? BY_NAME.get("Error") : undefined;
}
