import { COLLECTION_KINDS, ERROR_KINDS, SCALAR_KINDS, SERIALIZED_KINDS } from "./built-ins";
import { BYTE_KINDS } from "./bytes";
import { INSTANCE_KINDS } from "./instances";
import type { Kind } from "./kind";

/** The closed table: instances of these classes are written and built, and of no others. */
export const KINDS: readonly Kind[] = [
  ...SCALAR_KINDS,
  ...COLLECTION_KINDS,
  ...BYTE_KINDS,
  ...ERROR_KINDS,
  ...INSTANCE_KINDS,
  ...SERIALIZED_KINDS,
];
