import { randomUUID } from "node:crypto";
import type { ServerResponse } from "node:http";
import type { BaseTurnSaver } from "../base-saver";
import { TurnsError } from "../errors";
import type { Changes } from "../follow";
import { nodePathOf } from "../guards/graph-document";
import { numberOf } from "../inspection/place";
import { internalsOf } from "../internals";
import type { Change } from "../store/changes";
import { isAlive } from "../turns/process-identity";
import type { LiveChange, LiveEvent } from "./api";
import { failureOf, HttpError } from "./failures";
import type { WatchedFile } from "./watched-file";

/** How often to look whether the file is still there and who is alive. Nobody tells of either. */
const LOOK_MS = 1_000;
/** A comment, so that a browser and what lies between notice a dead connection. */
const BEAT_MS = 15_000;
/** What a browser waits before it connects again. */
const RETRY_MS = 1_000;

/** Longer cursors are kept here, and a browser gets a name for them: a header has room for 16 KB. */
const LONGEST_CURSOR = 3_000;
const REMEMBERED = 20;
/** A long cursor takes a moment to make. */
const NAMING_MS = 1_000;

/** Cursors of many threads, by the names that browsers got for them, oldest first. */
export class Cursors {
  readonly #known = new Map<string, string>();

  nameOf(cursor: string): string {
    if (cursor.length <= LONGEST_CURSOR) return cursor;
    const name = `kept-${randomUUID()}`;
    this.#known.set(name, cursor);
    const [oldest] = this.#known.keys();
    if (this.#known.size > REMEMBERED && oldest !== undefined) this.#known.delete(oldest);
    return name;
  }

  /** Undefined if it was forgotten. */
  cursorOf(name: string): string | undefined {
    return name.startsWith("kept-") ? this.#known.get(name) : name;
  }
}

interface LiveRequest {
  saver: BaseTurnSaver;
  cursors: Cursors;
  file: WatchedFile;
  threadId: string | undefined;
  /** The id of the last event that the client got. */
  after: string | undefined;
  /** Aborted when the client has gone, or the server closes. */
  signal: AbortSignal;
}

/** Tells a client what is saved, until it goes. Never rejects: what goes wrong is told, and the client comes again. */
export async function tellLive(response: ServerResponse, request: LiveRequest): Promise<void> {
  const { saver, cursors, file, signal } = request;
  const stop = new AbortController();
  const abort = (): void => stop.abort();
  signal.addEventListener("abort", abort, { once: true });
  if (signal.aborted) abort();
  const wire = new Wire(response, stop.signal);
  let running = "";
  const look = async (): Promise<void> => {
    file.refuseOther();
    const alive = (await internalsOf(saver).store.inspect.runs()).filter((run) => isAlive(run));
    const threads = [...new Set(alive.map(({ threadId }) => threadId))].sort();
    if (request.threadId !== undefined && !threads.includes(request.threadId)) threads.length = 0;
    const now = alive.map(({ runId }) => runId).join();
    if (now !== running) await wire.send({ type: "runs", running: threads });
    running = now;
  };
  const problem = async (error: unknown): Promise<void> => {
    const { code, message } = failureOf(error, internalsOf(saver).store.name).body.error;
    await wire.send({ type: "problem", code, message, gone: error instanceof HttpError });
    abort();
  };
  wire.write(`retry: ${RETRY_MS}\n\n`);
  const beat = setInterval(() => wire.write(": still here\n\n"), BEAT_MS);
  const watch = watching(look, problem, stop.signal);
  try {
    const { changes, fresh } = await followed(request, stop.signal);
    const id = cursors.nameOf(changes.cursor ?? "");
    await wire.send({ type: "ready", format: 1, fresh }, id);
    let named = Date.now();
    for await (const change of changes) {
      const isLong = id.startsWith("kept-");
      const isDue = !isLong || Date.now() - named >= NAMING_MS;
      if (isDue) named = Date.now();
      const cursor = isDue ? changes.cursor : undefined;
      await wire.send({ type: "change", change: await announced(saver, change) }, cursor && cursors.nameOf(cursor));
    }
  } catch (error) {
    await problem(error);
  } finally {
    abort();
    clearInterval(beat);
    signal.removeEventListener("abort", abort);
    await watch;
    response.end();
  }
}

/** Looks again and again, until it's stopped. */
async function watching(
  look: () => Promise<void>,
  problem: (error: unknown) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    try {
      await look();
    } catch (error) {
      await problem(error);
      return;
    }
    await new Promise<void>((resolve) => {
      const timer = setTimeout(done, LOOK_MS);
      signal.addEventListener("abort", done, { once: true });
      function done(): void {
        clearTimeout(timer);
        signal.removeEventListener("abort", done);
        resolve();
      }
    });
  }
}

async function followed(
  { saver, cursors, threadId, after }: LiveRequest,
  signal: AbortSignal,
): Promise<{ changes: Changes; fresh: boolean }> {
  const known = after === undefined || after === "" ? undefined : cursors.cursorOf(after);
  if (known !== undefined) {
    try {
      const changes = saver.follow({ ...(threadId !== undefined && { threadId }), after: known, signal });
      await changes.ready;
      return { changes, fresh: false };
    } catch (error) {
      // A cursor of another server, or of another version.
      if (!TurnsError.is(error, "INVALID_OPTION")) throw error;
    }
  }
  const changes = saver.follow({ ...(threadId !== undefined && { threadId }), signal });
  await changes.ready;
  return { changes, fresh: true };
}

/** Writes events, no faster than the client reads. */
class Wire {
  readonly #response: ServerResponse;
  readonly #signal: AbortSignal;

  constructor(response: ServerResponse, signal: AbortSignal) {
    this.#response = response;
    this.#signal = signal;
  }

  async send(event: LiveEvent, id?: string): Promise<void> {
    const head = id === undefined ? "" : `id: ${id}\n`;
    const isSent = this.write(`${head}event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
    if (isSent || this.#signal.aborted) return;
    await new Promise<void>((resolve) => {
      const done = (): void => {
        this.#response.removeListener("drain", done);
        this.#response.removeListener("close", done);
        this.#signal.removeEventListener("abort", done);
        resolve();
      };
      this.#response.on("drain", done).on("close", done);
      this.#signal.addEventListener("abort", done);
    });
  }

  /** @returns whether more may be written at once */
  write(text: string): boolean {
    return this.#response.writableEnded || this.#response.destroyed ? true : this.#response.write(text);
  }
}

/** {@link toldOf} that knows where a thread went that isn't here any more. */
async function announced(saver: BaseTurnSaver, change: Change): Promise<LiveChange> {
  const told = toldOf(change);
  if (change.kind !== "deleted") return told;
  try {
    await internalsOf(saver).store.departure(change.threadId);
  } catch (error) {
    if (TurnsError.is(error, "THREAD_MOVED")) return { ...told, words: `the thread was moved to ${String(error.data["to"])}` };
  }
  return told;
}

/** A change with a line about it. */
function toldOf(change: Change): LiveChange {
  const { kind, threadId, seq } = change;
  const base = { kind, threadId, number: numberOf(seq) };
  switch (change.kind) {
    case "turn": {
      const node = nodePathOf(change.nodeNs) || change.nodeName;
      const { taskId, createdAt } = change;
      return { ...base, words: turnWords(node.replaceAll("|", " › "), change), node, taskId, at: createdAt.toISOString() };
    }
    case "checkpoint":
      return {
        ...base,
        words: `checkpoint of step ${change.step}`,
        node: null,
        taskId: null,
        at: change.createdAt.toISOString(),
      };
    case "effect": {
      const { name, what, nodeName: node, taskId, startedAt, endedAt } = change;
      return { ...base, words: `${name} ${EFFECT_WORDS[what]}`, node, taskId, at: (endedAt ?? startedAt).toISOString() };
    }
    case "rewind": {
      const { what, targetTaskId: taskId, createdAt, takenBackAt } = change;
      const words = REWIND_WORDS[what].replace("TASK", () => taskId);
      return { ...base, words, node: null, taskId, at: (takenBackAt ?? createdAt).toISOString() };
    }
    case "pruned":
      return { ...base, words: "old checkpoints were removed", node: null, taskId: null, at: null };
    case "deleted":
      return { ...base, words: "the thread was deleted", node: null, taskId: null, at: change.deletedAt?.toISOString() ?? null };
  }
}

function turnWords(node: string, { turnType, attempt, status }: Extract<Change, { kind: "turn" }>): string {
  if (turnType === "Thought") return attempt > 1 ? `${node} started again` : `${node} started`;
  return `${node} ${status === undefined ? "ended" : TURN_WORDS[status]}`;
}

const TURN_WORDS = { ok: "finished", error: "failed", interrupted: "waits", handoff: "handed over" } as const;
const EFFECT_WORDS = {
  begun: "started",
  done: "is done",
  failed: "failed",
  resolved: "was settled",
  undone: "was undone",
  "undo-failed": "couldn't be undone",
} as const;
const REWIND_WORDS = {
  undoing: "a rewind to TASK has begun",
  done: "rewound to TASK",
  abandoned: "the rewind to TASK was abandoned",
  "taken-back": "the rewind to TASK was taken back",
} as const;
