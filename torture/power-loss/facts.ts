import { createHash } from "node:crypto";
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import type { TurnSaver } from "langgraph-checkpoint-turns";

/** What is known of a thread: what by its name, and how it stands. */
export type Facts = Map<string, string>;

/** A fact that is only known to be there. */
export const THERE = "there";

/**
 * One acknowledgement. `fact`: one more thing was acknowledged. `stands`: an operation was, and all of the thread stands so now.
 * `begins`: an operation begins that removes, or adds, things; `whole` if its effect is in one transaction. `deed`, `undo`: the world was
 * changed.
 */
export type Ack =
  | { k: "opened" | "closed" | "end" }
  | { k: "fact"; t: string; fact: string; as: string }
  | { k: "begins"; t: string; what: string; whole: boolean }
  | { k: "stands"; t: string; what: string; facts: [string, string][] }
  | { k: "deed" | "undo"; t: string; deed: string; job: string; key: string };

/** `line` as a writer told it. */
export function parseAck(line: string): Ack {
  return JSON.parse(line.slice(line.indexOf("{"))) as Ack;
}

export const checkpointFact = (ns: string, id: string): string => `checkpoint ${ns}/${id}`;
export const turnFact = (id: string): string => `turn ${id}`;
export const effectFact = (key: string): string => `effect ${key}`;
export const undoFact = (key: string): string => `undo ${key}`;
export const turnState = (turn: { turnType: string; status: string | undefined; durable: boolean }): string =>
  `${turn.turnType} ${turn.status ?? ""} ${turn.durable ? "durable" : "provisional"}`;

/** How a thread stands, by what the saver itself tells. */
export async function standing(saver: TurnSaver, threadId: string): Promise<Facts> {
  const facts = await checkpointsOf(saver, threadId);
  for (const turn of await saver.turns.list(threadId)) facts.set(turnFact(turn.id), turnState(turn));
  for (const effect of await saver.effects.list(threadId)) {
    facts.set(effectFact(effect.key), effect.status);
    if (effect.undoStatus !== undefined) facts.set(undoFact(effect.key), effect.undoStatus);
  }
  for (const rewind of await saver.rewinds.list(threadId))
    facts.set(`rewind ${rewind.id}`, rewind.takenBackAt === undefined ? rewind.status : "taken back");
  return facts;
}

/** Every checkpoint with its values, and every pending write, of any saver. */
export async function checkpointsOf(saver: BaseCheckpointSaver, threadId: string): Promise<Facts> {
  const facts: Facts = new Map();
  for await (const { config, checkpoint, pendingWrites = [] } of saver.list({ configurable: { thread_id: threadId } })) {
    const { checkpoint_ns: ns = "" } = config.configurable as { checkpoint_ns?: string };
    facts.set(checkpointFact(ns, checkpoint.id), digestOf(checkpoint.channel_values));
    for (const [task, channel, value] of pendingWrites)
      facts.set(`write ${ns}/${checkpoint.id} ${task} ${channel}`, digestOf(value));
  }
  return facts;
}

export function digestOf(value: unknown): string {
  return createHash("sha256")
    .update(JSON.stringify(value) ?? "undefined")
    .digest("base64url")
    .slice(0, 16);
}

/** Whether what was acknowledged is still so, or has gone on since: what happened later may be on the disk as well. */
export function holds(fact: string, acknowledged: string, found: string | undefined): boolean {
  if (found === undefined) return false;
  if (acknowledged === THERE || acknowledged === found) return true;
  if (fact.startsWith("turn "))
    return acknowledged.endsWith("provisional") && found.replace("durable", "provisional") === acknowledged;
  if (fact.startsWith("effect ")) return acknowledged !== "done" && acknowledged !== "failed-for-good";
  if (fact.startsWith("undo ")) return acknowledged !== "done";
  if (fact.startsWith("rewind ")) return acknowledged === "undoing" || found === "taken back";
  return false;
}
