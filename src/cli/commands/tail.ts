import { once } from "node:events";
import { existsSync, statSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import type { BaseTurnSaver } from "../../base-saver";
import { TurnsError } from "../../errors";
import type { Changes, FollowRequest } from "../../follow";
import { numberOf, threadNamed } from "../../inspection/place";
import { internalsOf } from "../../internals";
import type { Change } from "../../store/changes";
import { command } from "../command";
import { FAILED, INTERRUPTED } from "../exit";
import { interruptible } from "../interrupt";
import type { Colour, Look } from "../look";
import { lookOf, type OutputOptions, wantsText } from "../output";
import { cut, oneLine, widthOf } from "../text";

interface TailOptions extends OutputOptions {
  since?: string;
  cursors?: boolean;
}

export const TAIL = command<TailOptions>({
  name: "tail",
  args: "[thread]",
  summary: "what is saved and removed from now on, on a thread or on all, until Ctrl-C",
  examples: ["turns tail", "turns tail order-17 --since start", "turns tail | jq 'select(.kind == \"effect\")'"],
  options: [
    ["--since <cursor>", "start, or the cursor that an earlier tail told (default: now)"],
    ["--cursors", "with each line of JSON, the cursor that continues behind it"],
  ],
  run: async (saver, [thread], { since, cursors = false, ...options }) => {
    const threadId = thread === undefined ? undefined : await threadNamed(saver, thread);
    const place = since === "start" ? { from: "start" as const } : { after: since };
    const tell = (change: Change, cursor: string | undefined): boolean =>
      process.stdout.write(
        wantsText(options)
          ? `${lineOf(change, lookOf(options))}\n`
          : `${JSON.stringify({ ...changeLine(change), ...(cursors && { cursor }) })}\n`,
      );
    const request = { ...place, ...(threadId !== undefined && { threadId }) };
    const exit = await interruptible((signal) => followed(saver, request, signal, tell), "");
    return { data: {}, text: () => "", isWritten: true, exit };
  },
});

/**
 * Tells each change until somebody stops it, or until the file is another one.
 *
 * @param tell returns false if what it wrote waits for its reader; the next change is told when that has read
 * @returns the exit code
 */
async function followed(
  saver: BaseTurnSaver,
  request: FollowRequest,
  signal: AbortSignal,
  tell: (change: Change, cursor: string | undefined) => boolean,
): Promise<number> {
  const stop = new AbortController();
  const end = (): void => stop.abort();
  signal.addEventListener("abort", end, { once: true });
  let gone: string | undefined;
  const watching = watchFile(internalsOf(saver).store.name, (what) => {
    gone = what;
    end();
  });
  let cursor = request.after;
  try {
    for (let isFirst = true; !stop.signal.aborted; isFirst = false) {
      const from: FollowRequest = isFirst || cursor === undefined ? request : { threadId: request.threadId, after: cursor };
      const changes: Changes = saver.follow({ ...definedOf(from), signal: stop.signal });
      try {
        for await (const change of changes) {
          const isRead = tell(change, (cursor = changes.cursor));
          if (!isRead) await once(process.stdout, "drain", { signal: stop.signal }).catch(() => undefined);
        }
        cursor = changes.cursor ?? cursor;
        break;
      } catch (error) {
        cursor = changes.cursor ?? cursor;
        if (!TurnsError.is(error, "STORE_UNAVAILABLE")) throw error;
        process.stderr.write(`turns: ${error.message} Trying again.\n`);
        await sleep(1_000, undefined, { signal: stop.signal }).catch(() => undefined);
      }
    }
  } finally {
    watching();
  }
  if (gone !== undefined) {
    process.stderr.write(`turns: ${gone}\n`);
    return FAILED;
  }
  if (cursor !== undefined) process.stderr.write(`turns: continue with --since ${cursor}\n`);
  return INTERRUPTED;
}

function definedOf(request: FollowRequest): FollowRequest {
  return Object.fromEntries(Object.entries(request).filter(([, value]) => value !== undefined));
}

const LOOK_EVERY_MS = 500;

/** A file that was deleted or replaced stays open here, and would never change again. @returns a function that ends it */
function watchFile(path: string, changed: (what: string) => void): () => void {
  if (!existsSync(path)) return () => undefined;
  const identity = (): string | undefined => {
    const found = statSync(path, { throwIfNoEntry: false });
    return found && `${found.dev}:${found.ino}`;
  };
  const first = identity();
  const timer = setInterval(() => {
    const now = identity();
    if (now === first) return;
    changed(
      now === undefined
        ? `The file ${path} was deleted.`
        : `The file ${path} was replaced by another one. Start again: turns tail.`,
    );
  }, LOOK_EVERY_MS);
  return () => clearInterval(timer);
}

/** A change as a line of JSON: its `seq` is the number that people see, and dates are texts. */
function changeLine({ seq, kind, threadId, ...rest }: Change): Record<string, unknown> {
  const plainRest = Object.entries(rest).map(
    ([name, value]) => [name, value instanceof Date ? value.toISOString() : (value ?? null)] as const,
  );
  return { format: 1, kind, threadId, number: numberOf(seq), ...Object.fromEntries(plainRest) };
}

function lineOf(change: Change, look: Look): string {
  const at = new Date(timeOf(change) ?? Date.now()).toISOString();
  const time = look.utc ? at.slice(11, 19) : new Date(at).toTimeString().slice(0, 8);
  const [text, colour] = wordsOf(change);
  const head = `${time}  ${oneLine(change.threadId)}  #${numberOf(change.seq)}  `;
  const said = cut(oneLine(text), Math.max(20, look.width - widthOf(head)));
  return `${look.paint("dim", head)}${colour === undefined ? said : look.paint(colour, said)}`;
}

function timeOf(change: Change): Date | undefined {
  switch (change.kind) {
    case "effect":
      return change.endedAt ?? change.startedAt;
    case "rewind":
      return change.takenBackAt ?? change.createdAt;
    case "deleted":
      return change.deletedAt;
    case "pruned":
      return undefined;
    default:
      return change.createdAt;
  }
}

const ENDS: Readonly<Record<string, Colour>> = { ok: "green", handoff: "green", error: "red", interrupted: "yellow" };

function wordsOf(change: Change): [text: string, colour: Colour | undefined] {
  switch (change.kind) {
    case "turn": {
      const again = change.attempt > 1 ? `, attempt ${change.attempt}` : "";
      if (change.turnType === "Thought") return [`${change.nodeName} starts${again} (task ${change.taskId})`, "blue"];
      const status = change.status ?? "ok";
      return [`${change.nodeName} ${status}${again}${change.durable ? "" : ", not settled yet"}`, ENDS[status]];
    }
    case "checkpoint":
      return [`checkpoint, step ${change.step} (${change.source})`, undefined];
    case "effect":
      return [
        `effect ${change.name} ${change.label} of ${change.nodeName}: ${change.what}`,
        change.what === "undo-failed" ? "red" : "cyan",
      ];
    case "rewind":
      return [`rewind to task ${change.targetTaskId}: ${change.what}`, "red"];
    case "pruned":
      return ["old checkpoints were removed", undefined];
    case "deleted":
      return ["the thread was deleted", "red"];
  }
}
