import { spawn, type ChildProcess } from "node:child_process";
import { writeSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { EffectEvent, RewindReport, Turn } from "langgraph-checkpoint-turns";

/** What a worker process reports to the demo, one JSON object per line. */
export type Message =
  | { type: "task"; taskId: string }
  | { type: "note"; text: string }
  | { type: "posted"; to: string }
  | { type: "paid"; to: string }
  | { type: "turn"; turn: Turn; note: string }
  | { type: "effect"; event: EffectEvent }
  | { type: "in-flight"; turns: Turn[] }
  | { type: "refused"; code: string }
  | { type: "warning"; message: string }
  | { type: "state"; after: string; digest: string }
  | { type: "rewind"; report: RewindReport };

/** Synchronous: what was written before a SIGKILL has arrived. */
export function tell(message: Message): void {
  writeSync(1, `${JSON.stringify(message)}\n`);
}

/** A worker process that has exited. */
export class Ended {
  constructor(
    readonly pid: number | undefined,
    readonly code: number | null,
    readonly signal: NodeJS.Signals | null,
    readonly messages: readonly Message[],
  ) {}

  of<T extends Message["type"]>(type: T): Extract<Message, { type: T }>[] {
    return this.messages.filter((message): message is Extract<Message, { type: T }> => message.type === type);
  }

  stateAfter(after: string): string | undefined {
    return this.of("state").find((message) => message.after === after)?.digest;
  }

  /** The effects to which that happened, as `name label`, in order. */
  effects(what: EffectEvent["what"]): string[] {
    return this.of("effect")
      .filter(({ event }) => event.what === what)
      .map(({ event }) => `${event.effect.name} ${event.effect.taskId}`);
  }
}

/** Starts a worker process, passes each of its messages to `onMessage`, and waits until the process has exited. */
export async function runWorker(args: string[], onMessage: (message: Message, worker: ChildProcess) => void): Promise<Ended> {
  const worker = spawn(process.execPath, [...process.execArgv, fileURLToPath(new URL("worker.ts", import.meta.url)), ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const messages: Message[] = [];
  const exited = new Promise<[number | null, NodeJS.Signals | null]>((resolve, reject) => {
    worker.on("error", reject);
    worker.on("exit", (code, signal) => resolve([code, signal]));
  });
  for await (const line of createInterface({ input: worker.stdout })) {
    const message = JSON.parse(line) as Message;
    messages.push(message);
    onMessage(message, worker);
  }
  const [code, signal] = await exited;
  return new Ended(worker.pid, code, signal, messages);
}
