import { chunkAddresses } from "../codec";
import type { MovedLists, MovedRow } from "./moves";
import { withReferences } from "./ops/copied-values";
import { contentOf } from "./ops/effect-rows";
import { parseManifest } from "./ops/heads";
import { listName } from "./ops/move-lists";
import { manifestText } from "./ops/put-checkpoint";
import { corrupted } from "./refusals";
import { CHUNKS, type Column, EFFECTS, fieldOf, ALL_TABLES } from "./tables";
import type { Pointer, Store } from "./store";

/**
 * How the rows of a thread are changed for a database with other keys: addresses of values, and digests of lists, are keyed. It
 * keeps two addresses for each value of the thread.
 */
export class ValueTranslation {
  readonly #addresses = new Map<string, string>();
  /** Values that were read before a value that they refer to. */
  readonly #waiting = new Map<string, { text: string; isArchived: boolean }>();

  constructor(
    private readonly to: Store,
    private readonly threadId: string,
    readonly lists: MovedLists,
  ) {}

  /** Learns the address of a value. */
  learn({ table, fields, archived }: MovedRow): void {
    if (table !== CHUNKS.name) return;
    const [address, text] = [fields["address"] as string, fields["body"] as string];
    if (!this.#isLearned(address, text)) this.#waiting.set(address, { text, isArchived: archived !== undefined });
  }

  #isLearned(address: string, text: string): boolean {
    if (!chunkAddresses(text).every((one) => this.#addresses.has(one))) return false;
    this.#addresses.set(address, this.to.address(this.threadId, this.#text(text)));
    this.#waiting.delete(address);
    return true;
  }

  /**
   * After all values were read.
   * @throws {TurnsError} CHECKPOINT_CORRUPTED if one refers to a value that there isn't
   */
  learned(): void {
    for (let isDone = false; !isDone;) {
      isDone = true;
      for (const [address, { text }] of this.#waiting) if (this.#isLearned(address, text)) isDone = false;
    }
    for (const [address, { text, isArchived }] of this.#waiting) {
      // What it refers to was pruned with a later archive, so this one can't be restored any more.
      if (isArchived) this.#addresses.set(address, this.to.address(this.threadId, this.#text(text)));
      else
        throw corrupted(`a value of thread ${this.threadId}`, "the values that it refers to", "none", {
          threadId: this.threadId,
          address,
        });
    }
  }

  /** The row as the target keeps it. */
  row(row: MovedRow): MovedRow {
    const { threadId, to } = this;
    const fields: Record<string, unknown> = { ...row.fields };
    for (const [name, column] of Object.entries<Column>(ALL_TABLES.find((table) => table.name === row.table)?.columns ?? {})) {
      const field = fieldOf(name, column) ?? name;
      const text = fields[field] as string;
      if (column.refers === "text") fields[field] = this.#text(text);
      else if (column.refers === "manifest") fields[field] = this.#manifest(text, row.lists);
      else if (column.refers === "texts") {
        const { input, outcome, undoError } = contentOf(text);
        const [newInput, newOutcome] = [input, outcome].map((part) => (part === undefined ? part : this.#text(part)));
        fields[field] = JSON.stringify({ input: newInput, outcome: newOutcome, undoError });
        if (row.table === EFFECTS.name)
          fields["inputDigest"] = newInput === undefined ? undefined : to.address(threadId, newInput);
      }
    }
    if (row.table === CHUNKS.name) fields["address"] = this.#address(fields["address"] as string);
    return { ...row, fields };
  }

  #address(address: string): string {
    return this.#addresses.get(address) ?? address;
  }

  #text(text: string): string {
    return withReferences(text, (address) => this.#address(address));
  }

  #manifest(text: string, lists: MovedRow["lists"]): string {
    const pointer = (old: Pointer): Pointer => {
      if (old.kind === "inline") return { ...old, text: this.#text(old.text) };
      if (old.kind === "whole") return { ...old, address: this.#address(old.address) };
      const digest = lists?.get(listName(old));
      return { ...old, digest: digest === undefined ? "" : this.to.address(this.threadId, digest) };
    };
    const entries = [...parseManifest(text)].map(
      ([channel, entry]) => [channel, { version: entry.version, pointer: entry.pointer && pointer(entry.pointer) }] as const,
    );
    return manifestText(new Map(entries));
  }
}
