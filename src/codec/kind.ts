import type { JsonRecord } from "./marker";

/** What a kind may ask of the writer. The innermost object is the one the kind is writing. */
export interface Writing {
  /** The text of a part, remembering the property that leads to it for error messages. */
  at(property: string, value: unknown): string;
  /** The same for a part that no property leads to, such as the key of a map entry. */
  atPlace(place: string, value: unknown): string;
  /** Own properties as a JSON object; its marker key, if any, is not escaped. All enumerable ones unless told which. */
  record(source: object, keys?: readonly string[]): string;
  /** Own enumerable properties that a built-in value normally lacks, as a further key of its tag; mostly nothing. */
  extras(value: object): string;
  /** Throws if there are enumerable symbol keys, which JSON cannot hold, other than the one the class puts there. */
  refuseSymbols(value: object, known?: symbol): void;
  /** Throws for a value that has content besides its properties, such as a Map that was given the prototype of another class. */
  refuseInnerKind(value: object): void;
  /** Refuses the value being written. */
  fail(found: string): never;
}

/** What a kind may ask of the reader. Everything is read in place. */
export interface Reading {
  value(node: unknown): unknown;
  /** The list with every element read. */
  list(nodes: unknown[]): unknown[];
  /** The raw JSON object under a key of a tag, its properties read. */
  fields(node: JsonRecord, key: string): JsonRecord;
  /** The part that is stored under an address. */
  resolved(address: string): unknown;
  /** Puts back what {@link Writing.extras} wrote. */
  extras<T extends object>(node: JsonRecord, target: T): T;
}

/** Reads a tagged object. Throws UNDECODABLE_VALUE or any other error if the object is malformed. */
export type Read = (node: JsonRecord, reader: Reading) => unknown;

/** How the instances of one class are written and read. The set of kinds is closed: what has no kind is neither saved nor built. */
export interface Kind {
  /** The value of the marker key: the name of the class. */
  readonly tag: string;
  readonly prototype: object;
  /** How many JSON levels lie between the tagged object and its children, itself included. */
  readonly levels: number;
  /**
   * True if the value really is of this class although its prototype is another object: one from another realm, or from a second
   * copy of a library. Subclasses are ruled out by the caller.
   */
  accepts(value: object): boolean;
  /** The whole tagged object as JSON text. */
  write(value: object, writer: Writing): string;
  readonly read: Read;
}

interface KindOf<T extends object> extends Omit<Kind, "prototype" | "write"> {
  readonly prototype: T;
  write(value: T, writer: Writing): string;
}

/** Lets a kind be written with the type of its instances; the table calls it with nothing else. */
export function kindOf<T extends object>(kind: KindOf<T>): Kind {
  return kind;
}
