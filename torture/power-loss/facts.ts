import { createHash } from "node:crypto";
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import type { TurnSaver } from "langgraph-checkpoint-turns";

/** What is known of a thread: facts by name, with their content. */
export type Facts = Map<string, string>;

/** A fact that is only known to be there. */
export const THERE = "there";

/**
 * One acknowledgement. `fact`: one more thing was acknowledged. `stands`: an operation was, and these are all facts of the thread now.
 * `begins`: an operation begins that removes, or adds, things; `whole` if its effect is in one transaction. `deed`, `undo`: the world was
 * changed.
 */
export type Ack =
  | { k: "opened" | "closed" | "end" }
  | { k: "fact"; t: string; fact: string; as: string }
  | { k: "begins"; t: string; what: string; whole: boolean }
  | { k: "stands"; t: string; what: string; facts: [string, string][] }
  | { k: "deed" | "undo"; t: string; deed: string; job: string; key: string };

/** Parses a line of a writer's output. */
export function parseAck(line: string): Ack {
  return JSON.parse(line.slice(line.indexOf("{"))) as Ack;
}

export const checkpointFact = (ns: string, id: string): string => `checkpoint ${ns}/${id}`;
export const turnFact = (id: string): string => `turn ${id}`;
export const effectFact = (key: string): string => `effect ${key}`;
export const undoFact = (key: string): string => `undo ${key}`;
export const turnState = (turn: { turnType: string; status: string | undefined; durable: boolean }): string =>
  `${turn.turnType} ${turn.status ?? ""} ${turn.durable ? "durable" : "provisional"}`;

/** The facts of a thread, as the saver reads them. */
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

/** Whether an acknowledged fact is unchanged, or has changed as it may later: later saves may be on the disk as well. */
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
