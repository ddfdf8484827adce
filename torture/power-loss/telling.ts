import { writeSync } from "node:fs";
import type { TurnSaver } from "langgraph-checkpoint-turns";
import { type Ack, checkpointFact, effectFact, standing, THERE, turnFact, turnState, undoFact } from "./facts";
import type { Deed } from "./expected";
import type { World } from "./graph";

let told = 0;

/** In one system call, so that its place among the others is the moment at which it was acknowledged. */
export function tell(ack: Ack): void {
  told += 1;
  const line = Buffer.from(`ACK ${told} ${JSON.stringify(ack)}\n`);
  if (writeSync(1, line) !== line.length) throw new Error("an acknowledgement was not written whole");
}

/** The saver emits its events synchronously after their commits, so each is an acknowledgement. */
export function tellEvents(saver: TurnSaver): void {
  saver.events.on("checkpoint", ({ threadId: t, checkpointNs, checkpointId }) => {
    tell({ k: "fact", t, fact: checkpointFact(checkpointNs, checkpointId), as: THERE });
  });
  saver.events.on("turn", (turn) => tell({ k: "fact", t: turn.threadId, fact: turnFact(turn.id), as: turnState(turn) }));
  saver.events.on("effect", ({ what, effect }) => {
    if (what === "undone") tell({ k: "fact", t: effect.threadId, fact: undoFact(effect.key), as: "done" });
    else tell({ k: "fact", t: effect.threadId, fact: effectFact(effect.key), as: effect.status });
  });
}

/** An operation on a thread: announced before, and reported with the thread's state after it. @param whole whether it is one transaction */
export async function announced(
  saver: TurnSaver,
  t: string,
  what: string,
  whole: boolean,
  work: () => Promise<unknown>,
): Promise<void> {
  tell({ k: "begins", t, what, whole });
  await work();
  await tellStanding(saver, t, what);
}

export async function tellStanding(saver: TurnSaver, t: string, what: string): Promise<void> {
  tell({ k: "stands", t, what, facts: [...(await standing(saver, t))] });
}

/** The world as the writer sees it. It reports each change at once. Job `a3` is a job of thread `a`. @param before what was done before */
export function toldWorld(before: readonly Deed[] = []): World {
  const keysOf = (what: Deed["what"]) => new Set(before.filter((each) => each.what === what).map(({ key }) => key));
  const done = keysOf("deed");
  const undone = keysOf("undo");
  const telling = (k: "deed" | "undo", into: Set<string>) => (deed: string, job: string, key: string) => {
    into.add(key);
    tell({ k, t: job.slice(0, 1), deed, job, key });
  };
  return {
    did: telling("deed", done),
    undid: telling("undo", undone),
    isDone: (key) => done.has(key),
    isUndone: (key) => undone.has(key),
  };
}

/** What one thread saves without runs: a list that grows, with pending writes. */
export function bareCheckpoint(at: number, lists: readonly string[]) {
  const id = `1ef00000-0000-6000-8000-${String(at).padStart(12, "0")}`;
  return {
    id,
    checkpoint: {
      v: 4,
      id,
      ts: new Date(1_700_000_000_000 + at).toISOString(),
      channel_values: { list: [...lists], at },
      channel_versions: { list: at + 1, at: at + 1 },
      versions_seen: {},
    },
    metadata: { source: "loop" as const, step: at, parents: {} },
    versions: { list: at + 1, at: at + 1 },
  };
}
