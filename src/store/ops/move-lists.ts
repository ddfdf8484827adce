import { extended, finished, newDigest, type RunningDigest } from "../../values/memory";
import type { MovedLists, MovedRow } from "../moves";
import type { Program } from "../program";
import { corrupted } from "../refusals";
import type { Session } from "../session";
import { firstSeq } from "../spans";
import type { ListPointer } from "../store";
import { CHUNKS, ITEMS, LISTS, REWINDS, SNAPSHOTS } from "../tables";
import type { ThreadState } from "../thread-state";
import { parseManifest } from "./heads";
import { ListDigests } from "./list-digests";
import { archivedRow } from "./row-references";
import { openBody } from "./values";

interface Item {
  pos: number;
  chunk: number;
  /** The seq of the rewind whose archive has it; Infinity for one in its table. */
  rewind: number;
}

const LIST = "SELECT base, keep FROM langgraph_lists WHERE seq = ?";
const ITEMS_OF = "SELECT pos, chunk FROM langgraph_items WHERE list = ? ORDER BY pos";
const BODY = "SELECT body FROM langgraph_chunks WHERE seq = ?";
const ARCHIVED = "SELECT row FROM langgraph_archive WHERE rewind_id = ? AND ordinal = ?";

/**
 * Digests of the lists that the manifests of a thread lead to, without a key: SHA-256 over the texts of the elements. A database
 * with other keys makes its own digests of them.
 *
 * A list that an archived checkpoint leads to may be partly in its archive, partly in the archives of later rewinds, and partly in
 * its table. What the archives have is noted before; all numbers here count from the start of the thread.
 */
export class ListsOfThread implements MovedLists {
  readonly isPrivate = true;
  readonly #live = new ListDigests();
  readonly #lists = new Map<number, { base: number | undefined; keep: number } | undefined>();
  readonly #archivedItems = new Map<number, Item[]>();
  readonly #items = new Map<number, readonly Item[]>();
  /** Their seqs by id. */
  readonly #rewinds = new Map<string, number>();
  readonly #chunks = new Map<number, { rewindId: string; ordinal: number }>();
  /** The digest of each list as it was needed last: the next checkpoint has a few elements more. */
  readonly #last = new Map<number, { chunks: readonly number[]; running: RunningDigest }>();

  /** Notes rewinds, and then what their archives have of lists. */
  note({ table, fields, archived }: MovedRow): void {
    const seq = fields["seq"] as number;
    if (table === REWINDS.name) this.#rewinds.set(fields["id"] as string, seq);
    if (archived === undefined) return;
    if (table === LISTS.name)
      this.#lists.set(seq, { base: fields["base"] as number | undefined, keep: fields["keep"] as number });
    else if (table === CHUNKS.name) this.#chunks.set(seq, archived);
    else if (table === ITEMS.name) {
      const list = fields["list"] as number;
      const items = this.#archivedItems.get(list) ?? [];
      items.push({ pos: fields["pos"] as number, chunk: fields["chunk"] as number, rewind: this.#seqOf(archived) });
      this.#archivedItems.set(list, items);
    }
  }

  /**
   * Digests by list and length. One is missing if the archive of a later rewind was pruned, so that the row can't be restored.
   * @throws {TurnsError} CHECKPOINT_CORRUPTED
   */
  *of(session: Session, key: ThreadState, { table, fields, archived }: MovedRow): Program<ReadonlyMap<string, string>> {
    const digests = new Map<string, string>();
    if (table !== SNAPSHOTS.name) return digests;
    for (const { pointer } of parseManifest(fields["channels"] as string).values()) {
      if (pointer?.kind !== "list") continue;
      const running =
        archived === undefined
          ? yield* this.#liveDigest(session, key, pointer)
          : yield* this.#archivedDigest(session, key, pointer, this.#seqOf(archived));
      const isRight = running !== undefined && this.#isSame(session, key, running, pointer);
      if (isRight) digests.set(listName(pointer), running.copy().digest("base64url"));
      else if (archived === undefined) throw broken(key, pointer);
    }
    return digests;
  }

  #isSame(session: Session, { threadId }: ThreadState, running: RunningDigest, { digest }: ListPointer): boolean {
    return finished(running, (text) => session.sealing.address(threadId, text)) === digest;
  }

  *#liveDigest(session: Session, key: ThreadState, pointer: ListPointer): Program<RunningDigest | undefined> {
    const absolute = { ...pointer, list: firstSeq(key.thread) + pointer.list };
    const running = yield* this.#live.of(session, key, absolute, () => false);
    return running === undefined || "broken" in running ? undefined : running;
  }

  #seqOf({ rewindId }: { rewindId: string }): number {
    return this.#rewinds.get(rewindId) ?? 0;
  }

  /** @param rewind the seq of the one whose archive leads to the list */
  *#archivedDigest(session: Session, key: ThreadState, pointer: ListPointer, rewind: number): Program<RunningDigest | undefined> {
    const chunks = yield* this.#elements(session, key, pointer, rewind);
    if (chunks === undefined) return undefined;
    const known = this.#last.get(pointer.list);
    const isLonger =
      known !== undefined && known.chunks.length <= chunks.length && known.chunks.every((chunk, at) => chunks[at] === chunk);
    let running = isLonger ? known.running : newDigest();
    for (const chunk of chunks.slice(isLonger ? known.chunks.length : 0)) {
      const text = yield* this.#text(session, key, chunk);
      if (text === undefined) return undefined;
      running = extended(running, [text]);
    }
    this.#last.set(pointer.list, { chunks, running });
    return running;
  }

  /**
   * The chunks of a list's elements; undefined if one is missing. What was in a place before a rewind is in its archive, or else in
   * that of the next rewind that removed it, or else still in its table.
   */
  *#elements(session: Session, key: ThreadState, pointer: ListPointer, rewind: number): Program<number[] | undefined> {
    const chunks: number[] = [];
    let upto = pointer.length;
    for (let list: number | undefined = pointer.list; list !== undefined && upto > 0;) {
      const row: { base: number | undefined; keep: number } | undefined = yield* this.#list(session, key, list);
      if (row === undefined) return undefined;
      const first = new Map<number, Item>();
      for (const item of yield* this.#itemsOf(session, key, list))
        if (item.rewind >= rewind && isBefore(item, first.get(item.pos))) first.set(item.pos, item);
      const own: number[] = [];
      for (let pos = row.keep; pos < upto; pos += 1) {
        const item = first.get(pos);
        if (item === undefined) return undefined;
        own.push(item.chunk);
      }
      chunks.unshift(...own);
      upto = Math.min(upto, row.keep);
      list = row.base;
    }
    return upto === 0 ? chunks : undefined;
  }

  *#list(
    session: Session,
    { thread }: ThreadState,
    list: number,
  ): Program<{ base: number | undefined; keep: number } | undefined> {
    const known = this.#lists.get(list);
    if (known !== undefined) return known;
    const row = yield* session.get<{ base: number | null; keep: number }>(LIST, firstSeq(thread) + list);
    const found = row && { base: row.base === null ? undefined : row.base - firstSeq(thread), keep: row.keep };
    this.#lists.set(list, found);
    return found;
  }

  *#itemsOf(session: Session, { thread }: ThreadState, list: number): Program<readonly Item[]> {
    const known = this.#items.get(list);
    if (known !== undefined) return known;
    const rows = yield* session.rows<[number, number]>(ITEMS_OF, firstSeq(thread) + list);
    const live = rows.map(([pos, chunk]) => ({ pos, chunk: chunk - firstSeq(thread), rewind: Infinity }));
    const items = [...live, ...(this.#archivedItems.get(list) ?? [])];
    this.#items.set(list, items);
    return items;
  }

  *#text(session: Session, { thread, threadId }: ThreadState, chunk: number): Program<string | undefined> {
    const place = this.#chunks.get(chunk);
    let body: unknown;
    if (place === undefined) body = (yield* session.get<{ body: unknown }>(BODY, firstSeq(thread) + chunk))?.body;
    else {
      const archived = yield* session.get<{ row: string }>(ARCHIVED, place.rewindId, place.ordinal);
      body = archived && archivedRow(archived.row)["body"];
    }
    return typeof body === "string" || body instanceof Uint8Array ? openBody(session, threadId, body) : undefined;
  }
}

export function listName({ list, length }: Pick<ListPointer, "list" | "length">): string {
  return `${list} ${length}`;
}

function broken({ threadId }: ThreadState, { list, length }: ListPointer): Error {
  return corrupted(`a list value of thread ${threadId}`, `the ${length} elements that were saved`, "others", { threadId, list });
}

function isBefore({ rewind }: Item, other: Item | undefined): boolean {
  return other === undefined || rewind < other.rewind;
}
