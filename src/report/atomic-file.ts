import { createHash, randomUUID } from "node:crypto";
import { constants } from "node:fs";
import { lstat, mkdir, open, readdir, readlink, realpath, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";

/** A file as it was read, and how to tell whether it is still the same. */
export interface ReadFile {
  bytes: Buffer;
  stamp: string;
}

/** The new file is in place, but it may not survive a power cut. */
export class NotSynced extends Error {}

const LINKS_AT_MOST = 40;
/** A file beside the target that is older than this and not yet renamed was left by a crashed process. */
const LEFT_BEHIND_MS = 600_000;
const TEMPORARY = ".turns-tmp";
/** In bytes, on every common file system. */
const LONGEST_NAME = 255;
const UUID_LENGTH = 36;

/** The file that a path leads to through symbolic links, whether it exists or not. A link stays a link. */
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

/**
 * Undefined if there's no such file. Only regular files are accepted: a device would be read without end, and a pipe would block.
 */
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
 * Replaces a file's content atomically: at every moment, even after a power cut, the file is fully the old or fully the new one.
 * Creates parent folders and keeps the file's permissions.
 *
 * @param before the file that the text was made from; undefined if there was none
 * @returns false if the file has changed since then; nothing is written in that case
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

/** Deletes temporary files that crashed processes left beside this file. */
export async function removeLeftBehind(path: string): Promise<void> {
  const folder = dirname(path);
  const prefix = temporaryPrefix(path);
  for (const name of (await orMissing(readdir(folder))) ?? []) {
    if (!name.startsWith(prefix) || !name.endsWith(TEMPORARY)) continue;
    const age = Date.now() - ((await orMissing(stat(join(folder, name))))?.mtimeMs ?? Date.now());
    if (age > LEFT_BEHIND_MS) await rm(join(folder, name), { force: true });
  }
}

/** If the name is too long, its hash. */
function temporaryPrefix(path: string): string {
  const name = basename(path);
  const isShort = Buffer.byteLength(name) <= LONGEST_NAME - UUID_LENGTH - TEMPORARY.length - 2;
  return `.${isShort ? name : createHash("sha256").update(name).digest("hex")}.`;
}

/** A rename is durable when its folder is synced. A new folder is durable when its parent is synced. */
async function syncFolders(folder: string, made: string | undefined): Promise<void> {
  // Windows can't open folders, and a rename needs no help there.
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

/** By path, for everything that this process writes, even through another copy of this package (ESM beside CommonJS). */
const queues: Queues = ((globalThis as Record<symbol, unknown>)[Symbol.for("langgraph-checkpoint-turns.checkpoint-files")] ??=
  new Map()) as Queues;

/** Runs jobs on one path one after another. A failing job doesn't stop the later ones. */
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
