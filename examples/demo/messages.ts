import { writeSync } from "node:fs";
import type { EffectEvent, RewindReport, Turn } from "langgraph-checkpoint-turns";

/** What a worker process tells the director, one JSON object a line. */
export type Message =
  | { type: "task"; taskId: string }
  | { type: "turn"; turn: Turn; note: string }
  | { type: "posted"; node: string; subject: string }
  | { type: "effect"; event: EffectEvent }
  | { type: "in-flight"; turns: Turn[] }
  | { type: "refused"; code: string }
  | { type: "warning"; message: string }
  | { type: "state"; after: string; digest: string }
  | { type: "rewind"; report: RewindReport };

/** Synchronous: what was said before a SIGKILL has been said. */
export function tell(message: Message): void {
  writeSync(1, `${JSON.stringify(message)}\n`);
}
