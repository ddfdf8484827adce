import { chunkAddresses } from "../../codec";
import { TurnsError } from "../../errors";
import { textFor } from "../dialect";
import { answered, mapped, type Program } from "../program";
import type { Session } from "../session";
import { threadOfSeq } from "../spans";
import type { CheckpointHead, Remembered, StoredCheckpoint, StoredValue } from "../store";
import { headKey, type ThreadState } from "../thread-state";
import { LIVE } from "./put-checkpoint";
import { type RawWrites, WRITE_PLACES, writesIn } from "./put-writes";
import { hydrated } from "./read-checkpoints";
import { threadKey } from "./thread-rows";
import { ChunkReader, knownList, readList, type StoredChunk, type ThreadPlace } from "./values";

const THERE = textFor(({ among }) => `SELECT seq FROM langgraph_snapshots WHERE seq ${among("?1", "BIGINT")} AND ${LIVE}`);
const WRITES = textFor(
  ({ among }) => `SELECT ${WRITE_PLACES} FROM langgraph_writes WHERE thread = ?1 AND (checkpoint_ns, checkpoint_id) IN
    (SELECT checkpoint_ns, checkpoint_id FROM langgraph_snapshots WHERE seq ${among("?2", "BIGINT")}) ORDER BY seq`,
);
/** Of a longer chunk than that it gives only the length. */
const BODIES = textFor(
  ({ among }) => `SELECT address, length(body) AS size, CASE WHEN length(body) <= ?3 THEN body END AS body
    FROM langgraph_chunks WHERE thread = ?1 AND address ${among("?2")}`,
);
/** A chunk of so many characters is read without asking for its length first. */
const SHORT = 2 ** 11;
/** So many characters of long chunks, and so many elements of lists, the checkpoints behind the first may add to a page. */
const LONG_MAX = 2 ** 22;
const ELEMENTS_MAX = 2 ** 8;

/**
 * Checkpoints of one thread, with each content read once: as many from the first on as fit into memory at once, and at least that one.
 * All of them are one state of the database. Undefined for a checkpoint that was deleted after its head was read. "unread" for one
 * that must be read by itself, because something of it is damaged.
 *
 * A list that an earlier list of the page contains isn't read: its reader has that one by then, or reads the checkpoint by itself.
 */
export function* hydratePage(
  session: Session,
  heads: readonly CheckpointHead[],
  remembered: Remembered,
): Program<(StoredCheckpoint | "unread" | undefined)[]> {
  const [first] = heads;
  if (first === undefined) return [];
  const at = { thread: threadOfSeq(first.seq), threadId: first.threadId };
  const reads = listsOf(session, at, heads, remembered);
  const page = heads.slice(0, reads.length);
  const chunks = new PageChunks(session, at, remembered);
  const wanted = page.map(addressesOf);
  const seqs = JSON.stringify(page.map(({ seq }) => String(seq)));
  const [key, there, versions, , ...read] = (yield* session.sideBySide<unknown[]>([
    threadKey(session, at.threadId),
    session.all(THERE(session), seqs),
    session.all(WRITES(session), at.thread, seqs),
    chunks.ask(new Set(wanted.flat()), new Set()),
    ...reads,
  ])) as [ThreadState | undefined, { seq: number }[], RawWrites[], undefined, ...(Map<string, StoredValue> | undefined)[]];
  if (key === undefined) return page.map(() => undefined);
  const live = new Set(there.map(({ seq }) => seq));
  const rows = new Map(page.map(({ ns, checkpointId }): [string, RawWrites[]] => [headKey(ns, checkpointId), []]));
  for (const row of versions) rows.get(headKey(row.checkpoint_ns, row.checkpoint_id))?.push(row);
  const writes = page.map((head) =>
    unlessDamaged(() => writesIn(session, head, rows.get(headKey(head.ns, head.checkpointId)) ?? [])),
  );
  for (const [index, entries] of writes.entries())
    wanted[index]?.push(...(entries ?? []).flatMap((write) => chunkAddresses(write.entries)));
  const fitting = page.slice(0, yield* chunks.gather(wanted));
  return yield* mapped(fitting.entries(), function* ([index, head]) {
    if (!live.has(head.seq)) return undefined;
    const [entries, lists] = [writes[index], read[index]];
    if (entries === undefined || lists === undefined || key.thread !== at.thread) return "unread";
    const known = { writes: entries, lists, reader: chunks.reader };
    return (yield* attempted(hydrated(session, key, head, remembered, known))) ?? "unread";
  });
}

/** The list values of each checkpoint, undefined where one is damaged. Of the first checkpoints, as many as fit into memory. */
function listsOf(
  session: Session,
  at: ThreadPlace,
  heads: readonly CheckpointHead[],
  remembered: Remembered,
): Program<Map<string, StoredValue> | undefined>[] {
  const longest = new Map<number, number>();
  const programs: Program<Map<string, StoredValue> | undefined>[] = [];
  let elements = 0;
  for (const { channels } of heads) {
    const reads: Program<[string, StoredValue]>[] = [];
    for (const [channel, { pointer }] of channels) {
      if (pointer?.kind !== "list") continue;
      const { list, length, digest } = pointer;
      const isRead = (longest.get(list) ?? -1) >= length;
      if (!isRead) longest.set(list, length);
      if (!isRead && programs.length > 0) elements += length - remembered.elements(list, length, digest);
      reads.push(listOf(channel, isRead ? answered(knownList(pointer)) : readList(session, at, pointer, remembered)));
    }
    if (elements > ELEMENTS_MAX) break;
    programs.push(attempted(mapOf(session, reads)));
  }
  return programs;
}

function* listOf(channel: string, read: Program<StoredValue>): Program<[string, StoredValue]> {
  return [channel, yield* read];
}

function* mapOf<T>(session: Session, entries: readonly Program<[string, T]>[]): Program<Map<string, T>> {
  return new Map(yield* session.sideBySide(entries));
}

/** The chunks that the values of a checkpoint refer to themselves. */
function addressesOf({ channels }: CheckpointHead): string[] {
  return [...channels.values()].flatMap(({ pointer }) => {
    if (pointer?.kind === "whole") return [pointer.address];
    return pointer?.kind === "inline" ? chunkAddresses(pointer.text) : [];
  });
}

/** The chunks of a page, in few round trips. */
class PageChunks {
  readonly reader: ChunkReader;
  readonly #session: Session;
  readonly #thread: number;
  readonly #remembered: Remembered;
  /** Those that were read, and haven't been followed yet. */
  readonly #read = new Map<string, StoredChunk>();
  /** Lengths of those that are too long to read unasked. */
  readonly #long = new Map<string, number>();
  /** Those that need no more work: followed, or missing. */
  readonly #done = new Set<string>();

  constructor(session: Session, at: ThreadPlace, remembered: Remembered) {
    this.reader = new ChunkReader(session, at, remembered);
    this.#session = session;
    this.#thread = at.thread;
    this.#remembered = remembered;
  }

  /** @param long those to read however long they are */
  *ask(short: ReadonlySet<string>, long: ReadonlySet<string>): Program {
    const unknown = [...short].filter((address) => !this.#remembered.chunk(address));
    const asked = (
      [
        [unknown, SHORT],
        [[...long], Number.MAX_SAFE_INTEGER],
      ] as const
    ).filter(([addresses]) => addresses.length > 0);
    const answers = yield* this.#session.sideBySide(
      asked.map(([addresses, most]) =>
        this.#session.all<Omit<StoredChunk, "body"> & { size: number; body: StoredChunk["body"] | null }>(
          BODIES(this.#session),
          this.#thread,
          JSON.stringify(addresses),
          most,
        ),
      ),
    );
    for (const address of [...short, ...long]) this.#done.add(address);
    for (const { address, size, body } of answers.flat()) {
      this.#done.delete(address);
      if (body === null) this.#long.set(address, size);
      else this.#read.set(address, { address, body });
    }
  }

  /**
   * Reads everything that the wanted chunks refer to, directly and indirectly.
   * @param wanted by each checkpoint
   * @returns how many checkpoints from the first on got all of theirs
   */
  *gather(wanted: readonly string[][]): Program<number> {
    let fitting = wanted.length;
    let room = LONG_MAX;
    for (;;) {
      const [short, long] = [new Set<string>(), new Set<string>()];
      for (let index = 0; index < fitting; index += 1) {
        const waiting = wanted[index] as string[];
        const later: string[] = [];
        const longOnes = new Set<string>();
        const before = room;
        for (let address = waiting.pop(); address !== undefined; address = waiting.pop()) {
          if (this.#done.has(address) || this.#remembered.chunk(address)) continue;
          const chunk = this.#read.get(address);
          if (chunk !== undefined) {
            this.#read.delete(address);
            this.#done.add(address);
            for (const next of this.reader.take(chunk)) waiting.push(next);
            continue;
          }
          later.push(address);
          const size = this.#long.get(address);
          if (size === undefined) short.add(address);
          else if (!long.has(address) && !longOnes.has(address)) {
            if (index > 0) room -= size;
            longOnes.add(address);
          }
        }
        for (const address of later) waiting.push(address);
        if (room >= 0) for (const address of longOnes) long.add(address);
        else [fitting, room] = [index, before];
      }
      if (short.size + long.size === 0) return fitting;
      yield* this.ask(short, long);
    }
  }
}

/** Undefined if something is damaged. */
function* attempted<T>(work: Program<T>): Program<T | undefined> {
  try {
    return yield* work;
  } catch (error) {
    return unlessDamaged(() => {
      throw error;
    });
  }
}

function unlessDamaged<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch (error) {
    if (TurnsError.is(error)) return undefined;
    throw error;
  }
}
