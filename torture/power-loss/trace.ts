import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";

/** A system call that matters for what a power cut leaves, in the order in which its effect began (for a sync: finished). */
export type Call =
  | { kind: "open"; path: string; creates: boolean; truncates: boolean }
  | { kind: "write"; path: string; offset: number; bytes: Buffer }
  | { kind: "truncate"; path: string; size: number }
  | { kind: "sync"; path: string }
  | { kind: "unlink"; path: string }
  | { kind: "told"; line: string };

/** The calls that strace records: all that are modelled, and all others that would change a file, so that they are noticed. */
export const TRACED = [
  ...["openat", "open", "creat", "write", "pwrite64", "fsync", "fdatasync", "ftruncate", "unlink", "unlinkat"],
  ...["writev", "pwritev", "pwritev2", "truncate", "fallocate", "rename", "renameat", "renameat2", "link", "linkat", "mmap"],
  ...["sync_file_range", "copy_file_range", "sendfile", "splice"],
];

const CALL = /^(\d+) +(\w+)\((.*)\) += (-?\d+|\?|0x[0-9a-f]+)(.*)$/s;
const UNFINISHED = /^(\d+) +(\w+)\((.*?) *<unfinished \.\.\.>$/s;
const RESUMED = /^(\d+) +<\.\.\. (\w+) resumed>(.*)$/s;
const HEX = /(?:\\x[0-9a-f]{2})+/g;

/**
 * Reads what `strace -f -y -xx` wrote about the files of one folder, and the process's standard output.
 *
 * @throws Error for a call that changes one of these files in a way that is not modelled, so that the explorer misses nothing silently
 */
export async function readTrace(log: string, folder: string): Promise<Call[]> {
  const calls: { at: number; call: Call }[] = [];
  const pending = new Map<string, { at: number; text: string }>();
  let at = 0;
  for await (const line of createInterface({ input: createReadStream(log, "latin1"), crlfDelay: Infinity })) {
    at += 1;
    const unfinished = UNFINISHED.exec(line);
    if (unfinished !== null) {
      pending.set(unfinished[1] as string, { at, text: `${unfinished[1]} ${unfinished[2]}(${unfinished[3]}` });
      continue;
    }
    const resumed = RESUMED.exec(line);
    const begun = resumed === null ? undefined : pending.get(resumed[1] as string);
    const whole = begun === undefined ? line : begun.text + (resumed?.[3] as string);
    const call = callOf(whole, folder);
    // A write can be on the disk as soon as it began; only a finished sync promises anything.
    if (call !== undefined) calls.push({ at: call.kind === "sync" ? at : (begun?.at ?? at), call });
  }
  return calls.sort((left, right) => left.at - right.at).map(({ call }) => call);
}

function callOf(line: string, folder: string): Call | undefined {
  const [, , name = "", args = "", result = ""] = CALL.exec(line) ?? [];
  if (name === "" || name === "mmap") return name === "mmap" ? refuseMapped(args, folder) : undefined;
  if ((name === "write" || name === "pwrite64") && !args.includes("<")) return undefined;
  const fdPath = textOf(/^\d+<([^>]*)>/.exec(args)?.[1]);
  if (name === "write" && args.startsWith("1<")) return { kind: "told", line: bytesOf(firstString(args)).toString("utf8") };
  const path = fdPath ?? textOf(firstString(args)) ?? "";
  if (!path.startsWith(folder) || path.endsWith("-shm")) return undefined;
  const returned = Number(result);
  if (returned < 0 || Number.isNaN(returned)) return failed(name, path, result);
  switch (name) {
    case "openat":
    case "open":
      return { kind: "open", path, creates: args.includes("O_CREAT"), truncates: args.includes("O_TRUNC") };
    case "pwrite64": {
      const bytes = bytesOf(firstString(args)).subarray(0, returned);
      return { kind: "write", path, bytes, offset: Number(/, (\d+)$/.exec(args)?.[1]) };
    }
    case "ftruncate":
      return { kind: "truncate", path, size: truncatedTo(args) };
    case "fsync":
    case "fdatasync":
      return { kind: "sync", path };
    case "unlink":
      return { kind: "unlink", path };
    default:
      throw new Error(`the trace has ${name} on ${path}, which is not modelled`);
  }
}

/** SQLite probes for files that are not there; a write or a sync that fails is something else. */
function failed(name: string, path: string, result: string): undefined {
  if (/^(open|unlink)/.test(name)) return undefined;
  // The process was killed during it.
  if (result === "?") return undefined;
  throw new Error(`${name} on ${path} failed while it was recorded`);
}

/** Writes through mapped memory aren't traced; only the log's index, which is rebuilt, may be mapped. */
function refuseMapped(args: string, folder: string): undefined {
  if (!args.includes("MAP_SHARED") || !args.includes("PROT_WRITE")) return undefined;
  const path = textOf(/<([^>]*)>/.exec(args)?.[1]) ?? "";
  if (path.startsWith(folder) && !path.endsWith("-shm")) throw new Error(`${path} is mapped into memory, which is not modelled`);
  return undefined;
}

/** With -xx strace prints sizes of ftruncate as plain numbers. */
function truncatedTo(args: string): number {
  const size = Number(/, (\d+)$/.exec(args)?.[1]);
  if (Number.isNaN(size)) throw new Error(`no size in ftruncate(${args})`);
  return size;
}

function textOf(escaped: string | undefined): string | undefined {
  return escaped?.replace(HEX, (hex) => bytesOf(hex).toString("utf8")).replace(/ ?\(deleted\)$/, "");
}

/** Every byte is written as `\x..`, so no quotation mark is part of a string. */
function firstString(args: string): string | undefined {
  const start = args.indexOf('"');
  return start < 0 ? undefined : args.slice(start + 1, args.indexOf('"', start + 1));
}

function bytesOf(escaped: string | undefined): Buffer {
  return Buffer.from((escaped ?? "").replaceAll("\\x", ""), "hex");
}
