import { undecodable } from "./failures";

/**
 * The one reserved key. A JSON object that has it is a tagged value, `{"~": tag, …}`; an ordinary object that happens to own this
 * key is written inside the tag `object`, so data can never pass for a tag.
 */
export const MARKER = "~";

/** How many arrays and objects may be nested in the written text. Far above real data, far below what overflows a stack. */
export const MAX_LEVELS = 2_000;

/** How deep a text may be nested when it is read. Tags without children add one level that the writer doesn't count. */
export const MAX_LEVELS_READ = MAX_LEVELS + 8;

/** A JSON object as the parser made it. */
export type JsonRecord = Record<string, unknown>;

/** The opening of a tagged object. The caller appends further keys and the closing brace. */
export function open(tag: string): string {
  return `{"${MARKER}":"${tag}"`;
}

/** A whole tagged object with one content, given as JSON text. */
export function tagged(tag: string, json: string): string {
  return `{"${MARKER}":"${tag}","v":${json}}`;
}

/** Sets an own property. It never assigns to `__proto__`, which would replace the target's prototype. */
export function put(target: object, key: string, value: unknown): void {
  if (key === "__proto__") define(target, key, value);
  else (target as JsonRecord)[key] = value;
}

/** Defines an own enumerable data property, despite any setters or read-only names that the target inherits. */
export function define(target: object, key: string, value: unknown): void {
  Object.defineProperty(target, key, { value, enumerable: true, configurable: true, writable: true });
}

/** What a kind may ask of the writer. The innermost object is the one that the kind is writing. */
export interface Writing {
  /** The text of a part. Error messages show the property that leads to it. */
  at(property: string, value: unknown): string;
  /** {@link at} for a part that no property leads to, such as the key of a map entry. */
  atPlace(place: string, value: unknown): string;
  /** Own properties as a JSON object; its marker key, if any, is not escaped. All enumerable ones unless told which. */
  record(source: object, keys?: readonly string[]): string;
  /** Own enumerable properties that a built-in value normally lacks, as a further key of its tag; usually empty. */
  extras(value: object): string;
  /** Throws if there are enumerable symbol keys, which JSON cannot hold, other than the one the class puts there. */
  refuseSymbols(value: object, known?: symbol): void;
  /** Throws for a value that has content besides its properties, such as a Map that was given the prototype of another class. */
  refuseInnerKind(value: object): void;
  /** Refuses the value that is being written. */
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
  /** Restores what {@link Writing.extras} wrote. */
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
   * True if the value is of this class although it has another prototype: from another realm, or from a second copy of a library.
   * The caller excludes subclasses.
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

/** Throws unless the tagged object has no keys but the marker and these. */
export function onlyKeys(node: JsonRecord, ...allowed: readonly string[]): void {
  // Faster than listing the keys first. A key that was added to Object.prototype isn't the node's own.
  for (const key in node) {
    if (key !== MARKER && !allowed.includes(key) && Object.hasOwn(node, key)) throw malformed(node);
  }
}

/** The content of a tag that must be a string. */
export function textOf(node: JsonRecord, key = "v"): string {
  const text = node[key];
  if (typeof text !== "string") throw malformed(node);
  return text;
}

/** The content of a tag that must be a list. */
export function listOf(node: JsonRecord, key = "v"): unknown[] {
  const list = node[key];
  if (!Array.isArray(list)) throw malformed(node);
  return list;
}

/** The content of a tag that must be a list of strings. */
export function namesOf(node: JsonRecord, key: string): string[] {
  const list = listOf(node, key);
  if (!list.every((name) => typeof name === "string")) throw malformed(node);
  return list;
}

/** The error for a known tag with wrong content. For nodes of known tags only: the tag is part of the message. */
export function malformed(node: JsonRecord): Error {
  return undecodable(`a malformed ${String(node[MARKER])} marker`);
}

/** Above this length the native stringifier is faster than looking first. */
const SHORT = 64;
// eslint-disable-next-line no-control-regex -- control characters are exactly what JSON must escape
const NEEDS_ESCAPE = /["\\\u0000-\u001f\ud800-\udfff]/;

/** A string as JSON text. Lone surrogates become escapes, so the text is always valid UTF-8. */
export function quote(text: string): string {
  return text.length <= SHORT && !NEEDS_ESCAPE.test(text) ? `"${text}"` : JSON.stringify(text);
}
