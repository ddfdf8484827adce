import { createHash, randomUUID } from "node:crypto";
import { constants } from "node:fs";
import { lstat, mkdir, open, readdir, readlink, realpath, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";

/** A file as it was read, and what tells whether it is still the same. */
export interface ReadFile {
  bytes: Buffer;
  stamp: string;
}

/** The new file is in its place, and nobody knows whether it stays there after a power cut. */
export class NotSynced extends Error {}

const LINKS_AT_MOST = 40;
/** A file beside the target that is older than this, and not yet renamed, was left by a process that died. */
const LEFT_BEHIND_MS = 600_000;
const TEMPORARY = ".turns-tmp";
/** In bytes, on every file system that is in use. */
const LONGEST_NAME = 255;
const UUID_LENGTH = 36;

/** The file that a path leads to, through symbolic links, whether it exists or not: a link stays a link. */
export async function targetOf(path: string): Promise<string> {
  let at = resolve(path);
  for (let links = 0; links < LINKS_AT_MOST; links += 1) {
    const found = await orMissing(lstat(at));
    if (found?.isSymbolicLink() !== true) break;
    at = resolve(dirname(at), await readlink(at));
  }
  const folder = await orMissing(realpath(dirname(at)));
  return folder === undefined ? at : join(folder, basename(at));
}

/** Undefined if there is no such file. What is no file is refused: a device would be read without end, and a pipe waited for. */
export async function readWhole(path: string): Promise<ReadFile | undefined> {
  const handle = await orMissing(open(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0)));
  if (handle === undefined) return undefined;
  try {
    const found = await handle.stat({ bigint: true });
    if (!found.isFile()) throw new Error("there is something else than a regular file");
    return { bytes: await handle.readFile(), stamp: stampOf(found) };
  } finally {
    await handle.close();
  }
}

/**
 * Puts a text in a file's place, so that at every moment the file is wholly the old or wholly the new one, a power cut included.
 * Creates folders above it, keeps its permissions.
 *
 * @param before what the text was made from; undefined if there was no file
 * @returns false, and nothing is written, if the file has changed since then
 * @throws {NotSynced} the file is the new one; after any other error it is the old one
 */
export async function replaceWhole(path: string, text: string, before: ReadFile | undefined): Promise<boolean> {
  const folder = dirname(path);
  const made = await mkdir(folder, { recursive: true });
  const temporary = join(folder, `${temporaryPrefix(path)}${randomUUID()}${TEMPORARY}`);
  const mode = (await orMissing(stat(path)))?.mode;
  try {
    const handle = await open(temporary, "wx");
    try {
      if (mode !== undefined) await handle.chmod(mode & 0o7777);
      await handle.writeFile(text);
      await handle.sync();
    } finally {
      await handle.close();
    }
    const now = await orMissing(stat(path, { bigint: true }));
    if ((now && stampOf(now)) !== before?.stamp) return false;
    await rename(temporary, path);
  } finally {
    await rm(temporary, { force: true });
  }
  try {
    await syncFolders(folder, made);
  } catch (error) {
    throw new NotSynced(`${(error as { code?: string }).code ?? "error"} when its folder was synced`, { cause: error });
  }
  return true;
}

/** Removes what processes that died while they wrote this file have left beside it. */
export async function removeLeftBehind(path: string): Promise<void> {
  const folder = dirname(path);
  const prefix = temporaryPrefix(path);
  for (const name of (await orMissing(readdir(folder))) ?? []) {
    if (!name.startsWith(prefix) || !name.endsWith(TEMPORARY)) continue;
    const age = Date.now() - ((await orMissing(stat(join(folder, name))))?.mtimeMs ?? Date.now());
    if (age > LEFT_BEHIND_MS) await rm(join(folder, name), { force: true });
  }
}

/** Of a name that has no room for more, its hash. */
function temporaryPrefix(path: string): string {
  const name = basename(path);
  const isShort = Buffer.byteLength(name) <= LONGEST_NAME - UUID_LENGTH - TEMPORARY.length - 2;
  return `.${isShort ? name : createHash("sha256").update(name).digest("hex")}.`;
}

/** The rename is durable when its folder is; a folder that was made is durable when the one above it is. */
async function syncFolders(folder: string, made: string | undefined): Promise<void> {
  // There folders cannot be opened, and a rename needs no help.
  if (process.platform === "win32") return;
  const last = made === undefined ? folder : dirname(made);
  for (let at = folder; ; at = dirname(at)) {
    const handle = await open(at, "r");
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
    if (at === last || at === dirname(at)) return;
  }
}

function stampOf(stats: { ino: bigint; size: bigint; mtimeNs: bigint; ctimeNs: bigint }): string {
  return [stats.ino, stats.size, stats.mtimeNs, stats.ctimeNs].join(":");
}

async function orMissing<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    const { code } = error as { code?: string };
    if (code === "ENOENT") return undefined;
    throw error;
  }
}

type Queues = Map<string, Promise<unknown>>;

/** By path, over all that this process writes, also through another copy of this package (ESM beside CommonJS). */
const queues: Queues = ((globalThis as Record<symbol, unknown>)[Symbol.for("langgraph-checkpoint-turns.checkpoint-files")] ??=
  new Map()) as Queues;

/** One after another on one path; a work that fails does not stop those behind it. */
export async function inTurn<T>(path: string, work: () => Promise<T>): Promise<T> {
  const before = queues.get(path) ?? Promise.resolve();
  const mine = before.then(work, work);
  const settled = mine.catch(() => undefined);
  queues.set(path, settled);
  try {
    return await mine;
  } finally {
    if (queues.get(path) === settled) queues.delete(path);
  }
}
