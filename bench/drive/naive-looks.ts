import { closeSync, openSync, readSync, statSync } from "node:fs";
import type { Database, Statement } from "better-sqlite3";

const HEADER_BYTES = 32;
const FRAME_HEADER_BYTES = 24;
const WORD = 4;

/**
 * The looks of decision 18, with its system calls: before a commit both lengths and what SQLite says; after it the same, the last frame from
 * before and the newest one. Where that can't tell, all frames are followed from the log's beginning.
 */
export class NaiveLooks {
  readonly #path: string;
  readonly #log: string;
  readonly #told: Statement;
  readonly #frameBytes: number;
  readonly #pageBytes: number;
  /** The last frame that is known, its number from 1 on. */
  #frames = 0;
  #last: Buffer;
  #spare: Buffer;
  /** The file was found to be shorter than its pages, and the log had the rest. */
  #seenBytes = -1;
  #seenMoved = -1;
  readonly #file: number;
  #logNumber = 0;

  constructor(db: Database) {
    this.#path = db.name;
    this.#log = `${db.name}-wal`;
    this.#told = db.prepare("PRAGMA wal_checkpoint(NOOP)").raw(true);
    this.#pageBytes = db.pragma("page_size", { simple: true }) as number;
    this.#frameBytes = FRAME_HEADER_BYTES + this.#pageBytes;
    this.#last = Buffer.alloc(this.#frameBytes);
    this.#spare = Buffer.alloc(this.#frameBytes);
    this.#file = statSync(this.#path).ino;
  }

  /** @throws Error if the file or its log was cut or replaced */
  before(): void {
    const file = statSync(this.#path);
    const log = statSync(this.#log);
    this.#refuseAnother(file.ino, log.ino);
    const [, frames, moved] = this.#told.get() as [number, number, number];
    const isKnown = frames > 0 && frames === this.#frames && log.size >= HEADER_BYTES + frames * this.#frameBytes;
    if (!isKnown) this.#follow(frames);
    this.#refuseShort(file.size, frames, moved);
  }

  /** @throws Error as {@link before} */
  after(): void {
    const file = statSync(this.#path);
    this.#refuseAnother(file.ino, statSync(this.#log).ino);
    const [, frames, moved] = this.#told.get() as [number, number, number];
    if (this.#frames === 0 || frames < this.#frames || !this.#adopts(frames)) this.#follow(frames);
    this.#refuseShort(file.size, frames, moved);
  }

  #refuseAnother(file: number, log: number): void {
    if (file !== this.#file || (this.#logNumber !== 0 && log !== this.#logNumber)) throw new Error("the file was replaced");
    this.#logNumber = log;
  }

  /** Whether the last frame is still there, and the newest one ends a commit under the same salts. */
  #adopts(frames: number): boolean {
    const bytes = this.#frameBytes;
    const log = openSync(this.#log, "r");
    const spare = this.#spare;
    let isWhole = readSync(log, spare, 0, bytes, HEADER_BYTES + (this.#frames - 1) * bytes) === bytes && spare.equals(this.#last);
    if (isWhole && frames > this.#frames) {
      isWhole =
        readSync(log, spare, 0, bytes, HEADER_BYTES + (frames - 1) * bytes) === bytes &&
        spare.readUInt32BE(WORD) !== 0 &&
        spare.compare(this.#last, 8, 16, 8, 16) === 0;
      if (isWhole) {
        this.#spare = this.#last;
        this.#last = spare;
        this.#frames = frames;
      }
    }
    closeSync(log);
    return isWhole;
  }

  /** Follows the checksums of all frames. @throws Error if one of them doesn't fit */
  #follow(frames: number): void {
    if (frames <= 0) {
      this.#frames = 0;
      return;
    }
    const log = openSync(this.#log, "r");
    try {
      const header = Buffer.alloc(HEADER_BYTES);
      readSync(log, header, 0, HEADER_BYTES, 0);
      const isBig = (header.readUInt32BE(0) & 1) === 1;
      let a = header.readUInt32BE(24);
      let b = header.readUInt32BE(28);
      const frame = this.#last;
      const sum = (start: number, end: number): void => {
        for (let at = start; at < end; at += 2 * WORD) {
          a = (a + (isBig ? frame.readUInt32BE(at) : frame.readUInt32LE(at)) + b) >>> 0;
          b = (b + (isBig ? frame.readUInt32BE(at + WORD) : frame.readUInt32LE(at + WORD)) + a) >>> 0;
        }
      };
      for (let at = 0; at < frames; at += 1) {
        const got = readSync(log, frame, 0, this.#frameBytes, HEADER_BYTES + at * this.#frameBytes);
        const isOfLog = got === this.#frameBytes && frame.compare(header, 16, 24, 8, 16) === 0;
        sum(0, 8);
        sum(FRAME_HEADER_BYTES, this.#frameBytes);
        if (!isOfLog || a !== frame.readUInt32BE(16) || b !== frame.readUInt32BE(20)) throw new Error("the log was cut");
      }
      this.#frames = frames;
    } finally {
      closeSync(log);
    }
  }

  /** Every page is in the file, or in a frame that hasn't been moved into the file yet. */
  #refuseShort(bytes: number, frames: number, moved: number): void {
    const pages = this.#last.readUInt32BE(WORD);
    if (this.#frames === 0 || bytes >= pages * this.#pageBytes || (bytes === this.#seenBytes && moved === this.#seenMoved))
      return;
    const inLog = new Set<number>();
    const log = openSync(this.#log, "r");
    for (let at = moved; at < frames; at += 1) {
      readSync(log, this.#spare, 0, WORD, HEADER_BYTES + at * this.#frameBytes);
      inLog.add(this.#spare.readUInt32BE(0));
    }
    closeSync(log);
    for (let page = Math.floor(bytes / this.#pageBytes) + 1; page <= pages; page += 1) {
      if (!inLog.has(page)) throw new Error("the file was cut");
    }
    this.#seenBytes = bytes;
    this.#seenMoved = moved;
  }
}
