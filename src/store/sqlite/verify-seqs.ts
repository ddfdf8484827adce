import type { Program, Sql } from "./sql";

/** Bits of one page; a page is there only if a number of its is. */
const PAGE_BITS = 1 << 16;
/** Where a number can be looked up. Elements of lists have no index by seq, so they are looked through, and not for ever. */
const INDEXED = [
  "langgraph_snapshots",
  "langgraph_chunks",
  "langgraph_lists",
  "langgraph_writes",
  "langgraph_graphs",
  "langgraph_effects",
] as const;
const SCANNED = ["langgraph_items", "langgraph_checkpoints", "langgraph_tasks", "langgraph_rewinds"] as const;
const SCANS_MAX = 20;

/** Which numbers were seen: one bit each, so that a file with a hundred million of them takes 13 MB. */
export class SeqSet {
  readonly #pages = new Map<number, Uint8Array>();
  #scans = 0;

  /** @returns false if it was there already */
  add(seq: number): boolean {
    const page = Math.floor(seq / PAGE_BITS);
    const bits = this.#pages.get(page) ?? new Uint8Array(PAGE_BITS / 8);
    this.#pages.set(page, bits);
    const bit = seq % PAGE_BITS;
    const mask = 1 << (bit & 7);
    const before = bits[bit >> 3] ?? 0;
    bits[bit >> 3] = before | mask;
    return (before & mask) === 0;
  }

  /**
   * Which rows have the number besides the one at hand. A row that was seen before may have gone since, or be the same: then there is none.
   *
   * @returns what they are called; undefined if there are none
   */
  *others(sql: Sql, seq: number, table: string): Program<string | undefined> {
    for (const other of INDEXED) {
      if (other !== table && (yield* sql.get(`SELECT 1 FROM ${other} WHERE seq = ?`, seq)) !== undefined)
        return `a row of ${other}`;
    }
    if (table !== "langgraph_threads" && (yield* sql.get("SELECT 1 FROM langgraph_threads WHERE thread = ?", seq)) !== undefined)
      return "a thread";
    if (this.#scans >= SCANS_MAX) return undefined;
    this.#scans += 1;
    for (const other of SCANNED) {
      const row = yield* sql.get<{ n: number }>(`SELECT count(*) AS n FROM ${other} WHERE seq = ?`, seq);
      if ((row?.n ?? 0) > (other === table ? 1 : 0)) return `a row of ${other}`;
    }
    return undefined;
  }
}
