const HEADER_BYTES = 32;
const FRAME_HEADER_BYTES = 24;
const MAGIC = 0x377f0682;

type Read = (at: number, length: number) => Buffer | undefined;

export interface Log {
  /** By page where its newest content is. */
  pages: ReadonlyMap<number, number>;
  /** How many pages the file has after its last commit. */
  size: number;
  pageBytes: number;
  /** The frame that does not verify, if others of the same log stand behind it: a crash leaves none there. */
  brokenAt: number | undefined;
}

/**
 * What was committed to a write-ahead log: frames count as far as their checksums go on from each other, and up to the last commit.
 *
 * @returns undefined for what is no log
 */
export function committedPages(read: Read, size: number): Log | undefined {
  const header = read(0, HEADER_BYTES);
  if (header === undefined || (header.readUInt32BE(0) & ~1) >>> 0 !== MAGIC) return undefined;
  const bigEndian = (header.readUInt32BE(0) & 1) === 1;
  const pageBytes = header.readUInt32BE(8);
  if (pageBytes < 512 || pageBytes > 65_536 || (pageBytes & (pageBytes - 1)) !== 0) return undefined;
  let sum = summed([0, 0], header.subarray(0, 24), bigEndian);
  if (!isSum(sum, header, 24)) return undefined;
  const pages = new Map<number, number>();
  let open: [page: number, at: number][] = [];
  let dbPages = 0;
  let brokenAt: number | undefined;
  for (let at = HEADER_BYTES; at + FRAME_HEADER_BYTES + pageBytes <= size; at += FRAME_HEADER_BYTES + pageBytes) {
    const frame = read(at, FRAME_HEADER_BYTES + pageBytes);
    if (frame === undefined) break;
    sum = summed(summed(sum, frame.subarray(0, 8), bigEndian), frame.subarray(FRAME_HEADER_BYTES), bigEndian);
    if (!frame.subarray(8, 16).equals(header.subarray(16, 24)) || !isSum(sum, frame, 16)) {
      if (goesOn(read, at + frame.length, size, header, frame.length)) brokenAt = (at - HEADER_BYTES) / frame.length + 1;
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

/** Whether a frame of this log, and not of an older one in its place, stands there. */
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
