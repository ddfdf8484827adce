import { undecodable } from "./failures";
import type { Reading } from "./kind";
import { define, MARKER, MAX_LEVELS_READ, put, type JsonRecord } from "./marker";
import { malformed } from "./node";
import { readerOf } from "./table";

/** Gives the value that is stored under an address. */
export type Resolve = (address: string) => unknown;

/**
 * Turns a parsed JSON tree into the value it stands for. The tree is private to the reader and changed in place, so parts without
 * tags cost one look and no copy.
 */
export class Reader implements Reading {
  private levels = 0;

  constructor(private readonly resolve?: Resolve) {}

  /** The value for any parsed JSON. Throws UNDECODABLE_VALUE, or whatever a constructor throws on malformed content. */
  value(node: unknown): unknown {
    if (typeof node !== "object" || node === null) return node;
    if (++this.levels > MAX_LEVELS_READ) throw undecodable("more levels of nesting than the codec writes");
    let value: unknown;
    if (Array.isArray(node)) value = this.list(node);
    else value = Object.hasOwn(node, MARKER) ? this.tagged(node as JsonRecord) : this.record(node as JsonRecord);
    this.levels--;
    return value;
  }

  list(nodes: unknown[]): unknown[] {
    for (let i = 0; i < nodes.length; i++) {
      const node = nodes[i];
      if (typeof node === "object" && node !== null) nodes[i] = this.value(node);
    }
    return nodes;
  }

  /** Every property read; the object itself is taken as it is, even with a marker key. */
  private record(node: JsonRecord): JsonRecord {
    const keys = Object.keys(node);
    for (let i = 0; i < keys.length; i++) {
      const key = keys[i] as string;
      const child = node[key];
      if (typeof child !== "object" || child === null) continue;
      const value = this.value(child);
      if (value !== child) put(node, key, value);
    }
    return node;
  }

  fields(node: JsonRecord, key: string): JsonRecord {
    const fields = node[key];
    if (typeof fields !== "object" || fields === null || Array.isArray(fields)) throw malformed(node);
    if (++this.levels > MAX_LEVELS_READ) throw undecodable("more levels of nesting than the codec writes");
    const record = this.record(fields as JsonRecord);
    this.levels--;
    return record;
  }

  extras<T extends object>(node: JsonRecord, target: T): T {
    if (!Object.hasOwn(node, "p")) return target;
    const extras = this.fields(node, "p");
    for (const key of Object.keys(extras)) define(target, key, extras[key]);
    return target;
  }

  resolved(address: string): unknown {
    if (this.resolve === undefined) throw undecodable("a reference without the part it refers to");
    return this.resolve(address);
  }

  private tagged(node: JsonRecord): unknown {
    const read = readerOf(node[MARKER]);
    if (read === undefined) throw undecodable("an unknown marker");
    return read(node, this);
  }
}
