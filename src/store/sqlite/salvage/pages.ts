import { closeSync, existsSync, fstatSync, openSync, readSync } from "node:fs";
import { TextDecoder } from "node:util";

const MAGIC = "SQLite format 3\0";
/** Every file that keeps its texts in UTF-8 has this near its beginning. */
const IN_SCHEMA = "CREATE TABLE langgraph_";
/** The page size of this package's files; used if the file's own header is damaged. */
const PAGE_BYTES = 4096;
/** The page with this byte never holds data: SQLite locks there. */
const PENDING_BYTE = 0x40000000;

/** The pointer map's entry for a page, in an auto-vacuum file. */
interface PageUse {
  type: "root" | "free" | "overflow" | "tree";
  parent: number;
}
const USES = [undefined, "root", "free", "overflow", "overflow", "tree"] as const;

/**
 * The pages of a database file as SQLite would see them, including what was committed to its write-ahead log. It works without
 * SQLite, which gives up at a damaged page and changes files that it opens. Nothing is written here, and no lock is taken.
 */
export class Pages {
  readonly pageBytes: number;
  /** The usable bytes of a page. */
  readonly usable: number;
  readonly count: number;
  /** Decodes texts in the encoding of the file. */
  readonly texts: TextDecoder;
  readonly hasHeader: boolean;
  /** Whether there is a pointer map; files that this package creates have one. */
  readonly mapped: boolean;
  /** How many pages came from the write-ahead log. */
  readonly logged: number;
  /** The damaged frame of the log: it and everything after it are lost. */
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
    // Behind the end that an intact log tells, the file still has abandoned pages: their content was deleted, or is elsewhere.
    const ends = log !== undefined && log.size > 0 && log.brokenAt === undefined;
    this.count = ends ? log.size : Math.max(inFile, log?.size ?? 0);
    // A damaged header must not make all texts unreadable.
    const encoding = isFirst && !this.#holds(IN_SCHEMA) ? ENCODINGS[first.readUInt32BE(56) - 1] : undefined;
    this.texts = new TextDecoder(encoding ?? "utf-8", { fatal: true, ignoreBOM: true });
  }

  /** Undefined if the file ends before the page, or the disk can't read it. */
  read(page: number): Buffer | undefined {
    if (this.#cache.has(page)) return this.#cache.get(page);
    const at = this.#log?.pages.get(page);
    const [file, from] = at === undefined ? [this.#files[0], (page - 1) * this.pageBytes] : [this.#log?.file, at];
    const found = this.#bytes(file as number, from, this.pageBytes);
    if (this.#cache.size > 2_000) this.#cache.clear();
    this.#cache.set(page, found);
    return found;
  }

  /** Undefined if the file keeps no pointer map, or its page is damaged. */
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
    const found = committedPages((at, length) => this.#bytes(file, at, length), fstatSync(file).size);
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

/** By the encoding number in a file's header. A caller's own handle may have created a file in UTF-16. */
const ENCODINGS = ["utf-8", "utf-16le", "utf-16be"] as const;

const LOG_HEADER_BYTES = 32;
const FRAME_HEADER_BYTES = 24;
const LOG_MAGIC = 0x377f0682;

type Read = (at: number, length: number) => Buffer | undefined;

interface Log {
  /** The place of each page's newest content. */
  pages: ReadonlyMap<number, number>;
  /** The number of pages in the file after its last commit. */
  size: number;
  pageBytes: number;
  /** The frame that doesn't verify, if others of the same log follow it. A crash leaves none there. */
  brokenAt: number | undefined;
}

/**
 * The committed content of a write-ahead log: frames count as long as their checksums continue each other, and up to the last
 * commit.
 *
 * @returns undefined if it isn't a log
 */
function committedPages(read: Read, size: number): Log | undefined {
  const header = read(0, LOG_HEADER_BYTES);
  if (header === undefined || (header.readUInt32BE(0) & ~1) >>> 0 !== LOG_MAGIC) return undefined;
  const bigEndian = (header.readUInt32BE(0) & 1) === 1;
  const pageBytes = header.readUInt32BE(8);
  if (pageBytes < 512 || pageBytes > 65_536 || (pageBytes & (pageBytes - 1)) !== 0) return undefined;
  let sum = summed([0, 0], header.subarray(0, 24), bigEndian);
  if (!isSum(sum, header, 24)) return undefined;
  const pages = new Map<number, number>();
  let open: [page: number, at: number][] = [];
  let dbPages = 0;
  let brokenAt: number | undefined;
  for (let at = LOG_HEADER_BYTES; at + FRAME_HEADER_BYTES + pageBytes <= size; at += FRAME_HEADER_BYTES + pageBytes) {
    const frame = read(at, FRAME_HEADER_BYTES + pageBytes);
    if (frame === undefined) break;
    sum = summed(summed(sum, frame.subarray(0, 8), bigEndian), frame.subarray(FRAME_HEADER_BYTES), bigEndian);
    if (!frame.subarray(8, 16).equals(header.subarray(16, 24)) || !isSum(sum, frame, 16)) {
      if (goesOn(read, at + frame.length, size, header, frame.length)) brokenAt = (at - LOG_HEADER_BYTES) / frame.length + 1;
      break;
    }
    open.push([frame.readUInt32BE(0), at + FRAME_HEADER_BYTES]);
    const committed = frame.readUInt32BE(4);
    if (committed === 0) continue;
    for (const [page, place] of open) pages.set(page, place);
    open = [];
    dbPages = committed;
  }
  for (const page of [...pages.keys()]) if (page > dbPages) pages.delete(page);
  return { pages, size: dbPages, pageBytes, brokenAt };
}

/** Whether a frame of this log is there, and not one of an older log. */
function goesOn(read: Read, at: number, size: number, header: Buffer, frameBytes: number): boolean {
  const next = at + frameBytes <= size ? read(at, FRAME_HEADER_BYTES) : undefined;
  return next?.subarray(8, 16).equals(header.subarray(16, 24)) === true;
}

type Sum = readonly [number, number];

function summed([left, right]: Sum, bytes: Buffer, bigEndian: boolean): Sum {
  let [a, b] = [left, right];
  for (let at = 0; at < bytes.length; at += 8) {
    const [x, y] = bigEndian
      ? [bytes.readUInt32BE(at), bytes.readUInt32BE(at + 4)]
      : [bytes.readUInt32LE(at), bytes.readUInt32LE(at + 4)];
    a = (a + x + b) >>> 0;
    b = (b + y + a) >>> 0;
  }
  return [a, b];
}

function isSum([a, b]: Sum, bytes: Buffer, at: number): boolean {
  return bytes.readUInt32BE(at) === a && bytes.readUInt32BE(at + 4) === b;
}
