import { firstSeq, threadOfSeq } from "../spans";
import { KEYED_BY_SEQ } from "../tables";
import type { Program } from "../program";
import type { Sql } from "../session";

/** Bits of one page. A page is there only if one of its numbers was seen; each thread has at least one, so pages are small. */
const PAGE_BITS = 1 << 12;
/** The others, each by the best index there is. Elements of lists and rewinds have none by seq, so not every number is looked for. */
const COUNTED: readonly [table: string, where: string, bound: (seq: number) => number[]][] = [
  ["langgraph_checkpoints", "seq = ? AND thread = ?", (seq) => [seq, threadOfSeq(seq)]],
  ["langgraph_tasks", "seq = ? AND thread = ?", (seq) => [seq, threadOfSeq(seq)]],
  ["langgraph_rewinds", "seq = ? AND status = 'done'", (seq) => [seq]],
  ["langgraph_items", "seq = ? AND list > ? AND list < ?", (seq) => [seq, firstSeq(threadOfSeq(seq)), seq]],
];
const SCANS_MAX = 20;

/** Which numbers were seen: one bit each. A hundred million of them in one thread take some 15 MB, a hundred thousand threads some 60 MB. */
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
    for (const { name: other } of KEYED_BY_SEQ) {
      if (other !== table && (yield* sql.get(`SELECT 1 FROM ${other} WHERE seq = ?`, seq)) !== undefined)
        return `a row of ${other}`;
    }
    if (this.#scans >= SCANS_MAX) return undefined;
    this.#scans += 1;
    for (const [other, where, bound] of COUNTED) {
      const row = yield* sql.get<{ n: number }>(`SELECT count(*) AS n FROM ${other} WHERE ${where}`, ...bound(seq));
      if ((row?.n ?? 0) > (other === table ? 1 : 0)) return `a row of ${other}`;
    }
    return undefined;
  }
}
