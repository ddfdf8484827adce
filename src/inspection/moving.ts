import type { BaseTurnSaver } from "../base-saver";
import { internalsOf } from "../internals";
import type { ThreadActivity } from "../store/inspection";
import type { Refusal } from "./refusal";
import { optionText, shellWord, startedAs, turns } from "./words";

/** A move of a thread to another database that was begun and isn't finished: nothing can be saved on the thread here. */
export interface Moving {
  id: string;
  /** The name of that database. */
  to: string;
  since: string;
  /** What finishes it. */
  command: string;
}

/** The move that a thread is in; null if there is none. */
export async function movingOf(saver: BaseTurnSaver, threadId: string): Promise<Moving | null> {
  const [thread] = await internalsOf(saver).store.inspect.activity({ threadId, limit: 1 });
  return thread === undefined ? null : movingIn(saver, thread);
}

/** {@link movingOf} for a thread that was listed. */
export function movingIn(saver: BaseTurnSaver, { threadId, movedTo }: ThreadActivity): Moving | null {
  if (movedTo === undefined) return null;
  const { id, to, at: since } = movedTo;
  return { id, to, since, command: moveCommand(internalsOf(saver).store.name, to, threadId) };
}

/** Why nothing can be changed on a thread now; null if it isn't being moved. */
export async function movingRefusal(saver: BaseTurnSaver, threadId: string): Promise<Refusal | null> {
  const moving = await movingOf(saver, threadId);
  return (
    moving && { code: "THREAD_MOVED", message: `${movingText(moving)} Finish the move: ${moving.command}${loginNote(moving.to)}` }
  );
}

export const movingText = ({ to, since }: Moving): string => `The thread is being moved to ${to} since ${since}.`;

/** The command that moves a thread between two databases, by their names. */
function moveCommand(from: string, to: string, threadId: string): string {
  const [src, dst] = [placeNamed(from), placeNamed(to)];
  return turns(
    "move",
    [src.place, dst.place, threadId],
    src.schema !== undefined && ["--schema", src.schema],
    dst.schema !== undefined && ["--to-schema", dst.schema],
    "--yes",
  );
}

/** How a command names a database that is called so. */
function placeNamed(name: string): { place: string; schema: string | undefined } {
  const [, server, schema] = /^([^/]+\/.*) \(schema (.+)\)$/.exec(name) ?? [];
  if (server === undefined) return { place: name, schema: undefined };
  return { place: `postgresql://${server}`, schema: schema === "turns" ? undefined : schema };
}

/** The command that looks at a thread in the database with this name. */
export function statusThere(name: string, threadId: string, program = "turns"): string {
  const { place, schema } = placeNamed(name);
  const start = [program, shellWord(place), ...(schema === undefined ? [] : [optionText("--schema", schema)])].join(" ");
  return startedAs(
    /\.(db|sqlite|sqlite3)$|^postgresql:/i.test(place) ? start : start.replace(" ", " --db "),
    turns("status", [threadId]),
  );
}

/** What a command lacks that names a database as it's recorded. */
function loginNote(to: string): string {
  return placeNamed(to).place === to ? "" : " These commands name no user: set PGUSER and PGPASSWORD.";
}

/** What THREAD_MOVED says to somebody with a command line. @param from the name of the database that the thread was in */
export function movedMessage(data: Readonly<Record<string, unknown>>, from: string, program?: string): string {
  const [threadId, to, at] = [data["threadId"], data["to"], data["at"]].map(String) as [string, string, string];
  if (data["gone"] !== true)
    return `Thread ${JSON.stringify(threadId)} is being moved to ${to} since ${at}, so nothing can be saved on it here. Finish the move: ${moveCommand(from, to, threadId)}${loginNote(to)}`;
  return `Thread ${JSON.stringify(threadId)} was moved to ${to} at ${at}. It is there: ${statusThere(to, threadId, program)}; to move it back: ${moveCommand(to, from, threadId)}${loginNote(to)}`;
}
