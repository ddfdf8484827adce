import { basename, dirname } from "node:path";
import type { Call } from "./trace";

/** What happened to the disk, and what was acknowledged meanwhile. `file` is an inode: a name that is created again is another file. */
export type Operation =
  | { kind: "write"; file: number; offset: number; bytes: Buffer }
  | { kind: "truncate"; file: number; size: number }
  | { kind: "sync"; file: number }
  | { kind: "create"; file: number; name: string }
  | { kind: "unlink"; name: string }
  | { kind: "sync-folder" }
  | { kind: "ack"; line: string };

/** Which of the operations that no sync has confirmed survive: all, none, or some by chance. */
export type Survivors = "all" | "synced" | "some";

/** The files of a folder, by name. */
export type Image = Map<string, Buffer>;

/** What disks write at once; a larger write can be torn between two of these. */
const SECTOR = 512;
const KEPT = 0.5;
const TORN = 0.3;
const ZEROED = 0.25;

/** How an image came to be, if all of it is safe on the disk. */
function operationsBefore(image: Image): Operation[] {
  const made = [...image].flatMap(([name, bytes], file): Operation[] => [
    { kind: "create", file, name },
    { kind: "write", file, offset: 0, bytes },
    { kind: "sync", file },
  ]);
  return [...made, { kind: "sync-folder" }];
}

/** Turns system calls into operations. @param before what was in the folder; its creation comes first */
export function operationsOf(calls: readonly Call[], folder: string, before: Image = new Map()): Operation[] {
  const names = new Map([...before.keys()].map((name, file) => [name, file]));
  const files: Operation[] = before.size === 0 ? [] : operationsBefore(before);
  let next = names.size;
  for (const call of calls) {
    if (call.kind === "told") {
      if (call.line.startsWith("ACK ")) files.push({ kind: "ack", line: call.line });
    } else if (call.path === folder) {
      if (call.kind === "sync") files.push({ kind: "sync-folder" });
    } else {
      if (dirname(call.path) !== folder) throw new Error(`${call.path} is not in ${folder}`);
      const name = basename(call.path);
      const file = names.get(name);
      if (call.kind === "open") {
        if (file === undefined && call.creates) {
          names.set(name, next);
          files.push({ kind: "create", file: next, name });
          next += 1;
        } else if (file !== undefined && call.truncates) files.push({ kind: "truncate", file, size: 0 });
      } else if (file !== undefined) {
        // A process that has a deleted file open can still write to it; nobody ever sees that.
        if (call.kind === "write") files.push({ kind: "write", file, offset: call.offset, bytes: call.bytes });
        else if (call.kind === "truncate") files.push({ kind: "truncate", file, size: call.size });
        else if (call.kind === "sync") files.push({ kind: "sync", file });
        else {
          names.delete(name);
          files.push({ kind: "unlink", name });
        }
      }
    }
  }
  return files;
}

/**
 * What the folder can hold when the power fails before operation `cut`. A file's operations before its last sync are there. Of the
 * others, and of the names that the folder was not synced with, each may be there or not, in any order; a write
 * may be torn at sectors, and one that made the file longer may leave its length without its content.
 */
export function imageAt(operations: readonly Operation[], cut: number, survivors: Survivors, random: () => number): Image {
  const synced = new Map<number, number>();
  let folderSynced = -1;
  for (const [at, operation] of operations.slice(0, cut).entries()) {
    if (operation.kind === "sync") synced.set(operation.file, at);
    else if (operation.kind === "sync-folder") folderSynced = at;
  }
  const survives = (): boolean => survivors === "all" || (survivors === "some" && random() < KEPT);
  const contents = new Map<number, Content>();
  const names = new Map<string, number>();
  // Many file systems keep the order of names, so that the last ones are lost. POSIX promises less.
  const keepsOrder = random() < 0.5;
  let foldersEnd = false;
  for (const [at, operation] of operations.slice(0, cut).entries()) {
    if (operation.kind === "create" || operation.kind === "unlink") {
      if (at > folderSynced && (foldersEnd || !survives())) foldersEnd = keepsOrder;
      else if (operation.kind === "create") names.set(operation.name, operation.file);
      else names.delete(operation.name);
    } else if (operation.kind === "write" || operation.kind === "truncate") {
      const content = contents.get(operation.file) ?? new Content();
      contents.set(operation.file, content);
      const isSafe = at < (synced.get(operation.file) ?? -1);
      if (operation.kind === "truncate") {
        if (isSafe || survives()) content.truncate(operation.size);
      } else if (isSafe || survivors === "all") content.write(operation.offset, operation.bytes);
      else if (survives()) writeTorn(content, operation.offset, operation.bytes, random);
      else if (survivors === "some" && random() < ZEROED) content.lengthen(operation.offset + operation.bytes.length);
    }
  }
  return new Map([...names].map(([name, file]) => [name, contents.get(file)?.bytes() ?? Buffer.alloc(0)]));
}

/** Of a torn write, the sectors before one place survive, or those after it, or any of them. */
function writeTorn(content: Content, offset: number, bytes: Buffer, random: () => number): void {
  const end = offset + bytes.length;
  const first = Math.floor(offset / SECTOR);
  const sectors = Math.ceil(end / SECTOR) - first;
  if (random() >= TORN || sectors < 2) return content.write(offset, bytes);
  const place = 1 + Math.floor(random() * (sectors - 1));
  const way = random();
  for (let sector = 0; sector < sectors; sector += 1) {
    const isThere = way < 0.5 ? sector < place : way < 0.75 ? sector >= place : random() < 0.5;
    const from = Math.max(offset, (first + sector) * SECTOR);
    const to = Math.min(end, (first + sector + 1) * SECTOR);
    if (isThere) content.write(from, bytes.subarray(from - offset, to - offset));
  }
}

/** A file that grows. */
class Content {
  #buffer = Buffer.alloc(0);
  #size = 0;

  write(offset: number, bytes: Buffer): void {
    this.lengthen(offset + bytes.length);
    bytes.copy(this.#buffer, offset);
  }

  lengthen(size: number): void {
    if (size <= this.#size) return;
    if (size > this.#buffer.length) this.#buffer = Buffer.concat([this.#buffer], Math.max(size, this.#buffer.length * 2));
    this.#size = size;
  }

  truncate(size: number): void {
    if (size < this.#size) this.#buffer.fill(0, size, this.#size);
    else this.lengthen(size);
    this.#size = size;
  }

  bytes(): Buffer {
    return Buffer.from(this.#buffer.subarray(0, this.#size));
  }
}
