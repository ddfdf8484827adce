import { closeSync, existsSync, fstatSync, openSync, readSync } from "node:fs";
import type { TextDecoder } from "node:util";
import { textDecoder } from "./records";
import { committedPages, type Log } from "./wal";

const MAGIC = "SQLite format 3\0";
/** In every file that keeps its texts in UTF-8, and near its beginning. */
const IN_SCHEMA = "CREATE TABLE langgraph_";
/** What this package's files have; taken where the file's own header is damaged. */
const PAGE_BYTES = 4096;
/** Bytes at which no page of data may be: SQLite locks there. */
const PENDING_BYTE = 0x40000000;

/** What the pointer map of an auto-vacuum file says of a page. */
export interface PageUse {
  type: "root" | "free" | "overflow" | "tree";
  parent: number;
}
const USES = [undefined, "root", "free", "overflow", "overflow", "tree"] as const;

/**
 * The pages of a database file as SQLite would see them, with what was committed to its write-ahead log, and without SQLite: it gives up
 * where a page is damaged, and changes files that it opens. Nothing is written here, and no lock is taken.
 */
export class Pages {
  readonly pageBytes: number;
  /** What is used of a page. */
  readonly usable: number;
  readonly count: number;
  /** Reads texts as the file keeps them. */
  readonly texts: TextDecoder;
  /** Whether the file begins like a database. */
  readonly hasHeader: boolean;
  /** Whether there is a pointer map; files that this package creates have one. */
  readonly mapped: boolean;
  /** How many pages the write-ahead log had. */
  readonly logged: number;
  /** The frame of the log that is damaged: it and what came after it are lost. */
  readonly brokenFrame: number | undefined;
  readonly #files: number[] = [];
  readonly #fileBytes: number;
  readonly #log: { pages: ReadonlyMap<number, number>; file: number } | undefined;
  readonly #cache = new Map<number, Buffer | undefined>();

  /** @param ignoreLog the log belongs to another file, or to an older state of this one */
  constructor(path: string, ignoreLog: boolean) {
    const file = this.#open(path);
    this.#fileBytes = fstatSync(file).size;
    const header = this.#bytes(file, 0, 100) ?? Buffer.alloc(100);
    this.hasHeader = header.toString("latin1", 0, 16) === MAGIC;
    const log = ignoreLog || !existsSync(`${path}-wal`) ? undefined : this.#logOf(`${path}-wal`);
    this.brokenFrame = log?.brokenAt;
    this.pageBytes = log?.pageBytes ?? (this.hasHeader ? pageBytesOf(header) : undefined) ?? PAGE_BYTES;
    this.#log = log;
    this.logged = log?.pages.size ?? 0;
    const first = this.read(1) ?? header;
    const isFirst = first.toString("latin1", 0, 16) === MAGIC;
    const reserved = isFirst ? (first[20] ?? 0) : 0;
    this.usable = this.pageBytes - (reserved <= 128 ? reserved : 0);
    this.mapped = !isFirst || first.readUInt32BE(52) !== 0;
    const inFile = Math.ceil(this.#fileBytes / this.pageBytes);
    // Behind the end that a whole log tells, the file still has pages that were given up: what they held was deleted, or is elsewhere.
    const ends = log !== undefined && log.size > 0 && log.brokenAt === undefined;
    this.count = ends ? log.size : Math.max(inFile, log?.size ?? 0);
    // A damaged header must not make all texts unreadable.
    this.texts = textDecoder(isFirst && !this.#holds(IN_SCHEMA) ? first.readUInt32BE(56) : 0);
  }

  /** Undefined if the file ends before, or the disk does not give it. */
  read(page: number): Buffer | undefined {
    if (this.#cache.has(page)) return this.#cache.get(page);
    const at = this.#log?.pages.get(page);
    const found =
      at !== undefined && this.#log !== undefined
        ? this.#bytes(this.#log.file, at, this.pageBytes)
        : this.#bytes(this.#files[0] as number, (page - 1) * this.pageBytes, this.pageBytes);
    if (this.#cache.size > 2_000) this.#cache.clear();
    this.#cache.set(page, found);
    return found;
  }

  /** Undefined where the file keeps no pointer map, or its page is damaged. */
  use(page: number): PageUse | undefined {
    if (!this.mapped) return undefined;
    const entries = Math.floor(this.usable / 5);
    let map = Math.floor((page - 2) / (entries + 1)) * (entries + 1) + 2;
    if (map === Math.floor(PENDING_BYTE / this.pageBytes) + 1) map += 1;
    if (page <= map) return undefined;
    const at = 5 * (page - map - 1);
    const bytes = this.read(map);
    if (bytes === undefined || at + 5 > this.usable) return undefined;
    const type = USES[bytes[at] ?? 0];
    return type && { type, parent: bytes.readUInt32BE(at + 1) };
  }

  close(): void {
    for (const file of this.#files.splice(0)) closeSync(file);
  }

  #holds(text: string): boolean {
    for (let page = 1; page <= this.count; page += 1) if (this.read(page)?.includes(text, 0, "latin1") === true) return true;
    return false;
  }

  #open(path: string): number {
    const file = openSync(path, "r");
    this.#files.push(file);
    return file;
  }

  #logOf(path: string): (Log & { file: number }) | undefined {
    const file = this.#open(path);
    const size = fstatSync(file).size;
    const found = committedPages((at, length) => this.#bytes(file, at, length), size);
    return found && { ...found, file };
  }

  #bytes(file: number, at: number, length: number): Buffer | undefined {
    const bytes = Buffer.alloc(length);
    try {
      return readSync(file, bytes, 0, length, at) === length ? bytes : undefined;
    } catch {
      return undefined;
    }
  }
}

function pageBytesOf(header: Buffer): number | undefined {
  const bytes = header.readUInt16BE(16);
  if (bytes === 1) return 65_536;
  return bytes >= 512 && (bytes & (bytes - 1)) === 0 ? bytes : undefined;
}
