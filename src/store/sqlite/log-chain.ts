import { closeSync, fstatSync, openSync, readSync } from "node:fs";

const HEADER_BYTES = 32;
const FRAME_HEADER_BYTES = 24;
const MAGIC = 0x377f0682;
/** How much of the log is read at once. */
const READ_BYTES = 64 * 1024;
/** Longer stretches aren't read frame by frame: 16 MiB at SQLite's usual page size, some 15 ms. */
const FRAMES_MAX = 4_096;
const IS_LITTLE_ENDIAN = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1;

/** The content of a commit's last frame. */
export interface Commit {
  /** The number of pages in the file after it, and their size. */
  pages: number;
  pageBytes: number;
  /** Changes with each reset of the log. */
  generation: string;
}

/** The result of a walk along the log. */
export interface LogEnd extends Commit {
  /** Whether the log holds all frames up to the requested one, each with the checksum that SQLite's own recovery requires. */
  whole: boolean;
  /** How long the log is, and how long it must be at least. */
  bytes: number;
  expected: number;
}

/** Both halves of a checksum, as signed integers. */
type Sum = readonly [number, number];

/**
 * A place in the log up to which it has been read: the number of frames, and the running checksum that the next frame continues.
 */
interface Place {
  frames: number;
  sum: Sum;
}

/** The last frame that was found intact: its number, counted from 1, and its bytes. */
interface LastFrame {
  frames: number;
  bytes: Buffer;
}

/**
 * Follows a write-ahead log as it grows. Each frame's checksum continues the one before, so a log is intact up to the first frame
 * that doesn't fit; the next recovery drops everything behind that frame.
 *
 * The last frame of the previous walk is kept and compared byte for byte. A cut at any place up to its end has changed it, even
 * if somebody has written behind the hole since. So nothing before it has to be read again.
 *
 * SQLite takes no locks on the log, so opening and closing it here releases none. (Never open the file itself beside SQLite:
 * closing it would drop the locks that this process has on it.)
 */
export class LogChain {
  readonly #path: string;
  #generation = "";
  #pageBytes = 0;
  #last: LastFrame | undefined;
  /** A buffer for the next frame, so that the last one can be kept beside it. */
  #spare: Buffer = Buffer.alloc(0);
  #buffer = Buffer.alloc(0);
  readonly #header = Buffer.alloc(HEADER_BYTES);

  constructor(path: string) {
    this.#path = path;
  }

  /**
   * Before a commit: the content of the last known frame, if nobody has written behind it and the log is long enough to have it.
   *
   * @param frames how many frames SQLite says the log has
   * @param bytes how long the log is
   * @returns undefined if this check can't tell; use {@link walk} then
   */
  untouched(frames: number, bytes: number): Commit | undefined {
    const last = this.#last;
    if (last?.frames !== frames || bytes < HEADER_BYTES + frames * last.bytes.length) return undefined;
    return this.#commit;
  }

  /**
   * After a commit of this process: the commit's last frame becomes the known one, if the previous one is still there. A cut in
   * the meantime has changed one of the two.
   *
   * @param frames how many frames SQLite says the log has
   * @returns undefined if this check can't tell; use {@link walk} then
   */
  committed(frames: number): Commit | undefined {
    const last = this.#last;
    if (last === undefined || frames < last.frames) return undefined;
    return reading(this.#path, (log) => {
      const isWhole = this.#isThere(log, last) && (frames === last.frames || this.#adopts(log, frames, last));
      return isWhole ? this.#commit : undefined;
    });
  }

  /**
   * Walks to a frame that is the last one of a commit.
   *
   * @param frames how many frames SQLite says the log has
   * @returns undefined if there is no log under this name, or it can't be read just now
   */
  walk(frames: number): LogEnd | undefined {
    return reading(this.#path, (log) => this.#walk(log, frames));
  }

  /** The pages in the frames after the first `after` ones, up to `frames`. */
  pagesBehind(after: number, frames: number): ReadonlySet<number> | undefined {
    return reading(this.#path, (log) => {
      const pages = new Set<number>();
      if (readSync(log, this.#header, 0, HEADER_BYTES, 0) < HEADER_BYTES) return pages;
      const bytes = FRAME_HEADER_BYTES + this.#header.readUInt32BE(8);
      const page = Buffer.alloc(4);
      for (let at = after; at < frames && readSync(log, page, 0, 4, HEADER_BYTES + at * bytes) === 4; at += 1) {
        pages.add(page.readUInt32BE(0));
      }
      return pages;
    });
  }

  #walk(log: number, frames: number): LogEnd {
    const header = this.#header;
    const found = fstatSync(log).size;
    const isThere = readSync(log, header, 0, HEADER_BYTES, 0) === HEADER_BYTES;
    if (isThere) this.#pageBytes = header.readUInt32BE(8);
    const pageBytes = this.#pageBytes;
    const frameBytes = FRAME_HEADER_BYTES + pageBytes;
    const generation = header.toString("latin1", 16, 24);
    const expected = HEADER_BYTES + frames * frameBytes;
    const end = { whole: false, pages: 0, pageBytes, generation, bytes: found, expected };
    if (!isThere || (header.readUInt32BE(0) & ~1) >>> 0 !== MAGIC || found < expected) return end;
    if (generation !== this.#generation || (this.#last?.frames ?? 0) > frames) this.#last = undefined;
    this.#generation = generation;
    const last = this.#last;
    if (last !== undefined && !this.#isThere(log, last)) return end;
    let from: Place | undefined =
      last === undefined
        ? { frames: 0, sum: [header.readInt32BE(24), header.readInt32BE(28)] }
        : { frames: last.frames, sum: [last.bytes.readInt32BE(16), last.bytes.readInt32BE(20)] };
    if (frames - from.frames > FRAMES_MAX) from = this.#onFaith(log, frames - 1, frameBytes);
    const isWhole = from !== undefined && (from.frames === frames || this.#follow(log, from, frames, frameBytes));
    return isWhole ? { ...end, ...this.#commit, whole: true } : end;
  }

  get #commit(): Commit {
    return { pages: this.#last?.bytes.readUInt32BE(4) ?? 0, pageBytes: this.#pageBytes, generation: this.#generation };
  }

  #isThere(log: number, { frames, bytes }: LastFrame): boolean {
    if (this.#spare.length !== bytes.length) this.#spare = Buffer.alloc(bytes.length);
    const spare = this.#spare;
    const at = HEADER_BYTES + (frames - 1) * bytes.length;
    return readSync(log, spare, 0, bytes.length, at) === bytes.length && spare.equals(bytes);
  }

  /** Makes a frame the last known one, if it completes a commit and the log was not reset before it. */
  #adopts(log: number, frames: number, { bytes: before }: LastFrame): boolean {
    const bytes = this.#spare;
    const at = HEADER_BYTES + (frames - 1) * bytes.length;
    if (readSync(log, bytes, 0, bytes.length, at) !== bytes.length) return false;
    if (bytes.readUInt32BE(4) === 0 || bytes.compare(before, 8, 16, 8, 16) !== 0) return false;
    this.#spare = before;
    this.#last = { frames, bytes };
    return true;
  }

  /** @returns whether each frame from there on fits */
  #follow(log: number, from: Place, frames: number, frameBytes: number): boolean {
    const atOnce = Math.max(1, Math.floor(READ_BYTES / frameBytes));
    if (this.#buffer.length !== atOnce * frameBytes) this.#buffer = Buffer.from(new ArrayBuffer(atOnce * frameBytes));
    const buffer = this.#buffer;
    const words = new Int32Array(buffer.buffer);
    const [salt, salt2] = [this.#header.readInt32BE(16), this.#header.readInt32BE(20)];
    const isSwapped = (this.#header.readUInt32BE(0) & 1) === (IS_LITTLE_ENDIAN ? 1 : 0);
    const last = Buffer.alloc(frameBytes);
    let { sum } = from;
    for (let at = from.frames; at < frames;) {
      const count = Math.min(atOnce, frames - at);
      const wanted = count * frameBytes;
      if (readSync(log, buffer, 0, wanted, HEADER_BYTES + at * frameBytes) !== wanted) return false;
      for (let start = 0; start < wanted; start += frameBytes) {
        if (buffer.readInt32BE(start + 8) !== salt || buffer.readInt32BE(start + 12) !== salt2) return false;
        const [left, right] = [buffer.readInt32BE(start + 16), buffer.readInt32BE(start + 20)];
        if (at === frames - 1) buffer.copy(last, 0, start, start + frameBytes);
        if (isSwapped) buffer.subarray(start, start + frameBytes).swap32();
        sum = summed(summed(sum, words, start, 8), words, start + FRAME_HEADER_BYTES, frameBytes - FRAME_HEADER_BYTES);
        if (sum[0] !== left || sum[1] !== right) return false;
        at += 1;
      }
    }
    this.#last = { frames, bytes: last };
    return true;
  }

  /** The place behind a frame, trusting the frame itself. */
  #onFaith(log: number, frames: number, frameBytes: number): Place | undefined {
    const frame = Buffer.alloc(FRAME_HEADER_BYTES);
    const at = HEADER_BYTES + (frames - 1) * frameBytes;
    if (readSync(log, frame, 0, FRAME_HEADER_BYTES, at) !== FRAME_HEADER_BYTES) return undefined;
    if (frame.toString("latin1", 8, 16) !== this.#generation) return undefined;
    return { frames, sum: [frame.readInt32BE(16), frame.readInt32BE(20)] };
  }
}

/** SQLite's checksum, continued over this many bytes; `words` are in the byte order of the log. */
function summed([left, right]: Sum, words: Int32Array, start: number, bytes: number): Sum {
  let [a, b] = [left, right];
  const end = (start + bytes) / 4;
  for (let at = start / 4; at < end; at += 2) {
    a = (a + (words[at] ?? 0) + b) | 0;
    b = (b + (words[at + 1] ?? 0) + a) | 0;
  }
  return [a, b];
}

/** Undefined if it can't be read: SQLite has it open, and will report the problem. */
function reading<T>(path: string, read: (log: number) => T): T | undefined {
  let log: number | undefined;
  try {
    log = openSync(path, "r");
    return read(log);
  } catch {
    return undefined;
  } finally {
    if (log !== undefined) closeSync(log);
  }
}
