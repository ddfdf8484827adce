import { statSync } from "node:fs";

const LOG_HEADER = 32;
const FRAME_HEADER = 24;

/** Pages in a write-ahead log of this many bytes: each frame of the log is one page that a transaction wrote. */
export function framesIn(logBytes: number, pageSize: number): number {
  return logBytes === 0 ? 0 : (logBytes - LOG_HEADER) / (pageSize + FRAME_HEADER);
}

/** Pages written to a database since it was opened, as long as nothing brings its log back into the file. */
export function writtenPages(path: string, pageSize: number): number {
  return framesIn(statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0, pageSize);
}
