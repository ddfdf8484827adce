import type { TurnSaver } from "../saver";
import type { KnownEffect, Snapshot } from "./child-protocol";

/** What the journals of a file say: a node may run graphs on threads of their own, so all threads are asked. */
export async function snapshotOf(saver: TurnSaver): Promise<Snapshot> {
  const thoughts: { nodeTaskId: string; node: string }[] = [];
  const durable: { nodeTaskId: string; node: string }[] = [];
  const effects: KnownEffect[] = [];
  let rewinds = 0;
  for await (const { threadId } of saver.listThreads()) {
    for (const turn of await saver.listTurns(threadId)) {
      const { nodeTaskId, nodeName: node } = turn;
      if (turn.turnType === "Thought") thoughts.push({ nodeTaskId, node });
      else if (turn.durable) durable.push({ nodeTaskId, node });
    }
    for (const effect of await saver.effects.list(threadId)) effects.push(known(effect));
    rewinds += (await saver.listRewinds(threadId)).filter(({ status }) => status === "done").length;
  }
  return { thoughts, durable, effects, rewinds };
}

function known({
  key,
  name,
  label,
  nodeName,
  nodeTaskId,
  status,
  tries,
  idempotent,
  settledBy,
  undoStatus,
}: KnownEffect): KnownEffect {
  return { key, name, label, nodeName, nodeTaskId, status, tries, idempotent, settledBy, undoStatus };
}
