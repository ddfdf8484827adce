import { undecodable } from "./failures";
import { MARKER, type JsonRecord } from "./marker";

/** Throws unless the tagged object has no keys but the marker and these. */
export function onlyKeys(node: JsonRecord, ...allowed: readonly string[]): void {
  // Faster than listing the keys first; a key that Object.prototype was given elsewhere is not the node's.
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
