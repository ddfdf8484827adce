import { spawn, type ChildProcess } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { Message } from "./messages";

export interface Performance {
  pid: number | undefined;
  code: number | null;
  signal: NodeJS.Signals | null;
  /** All the worker said. */
  messages: Message[];
}

/** Starts a worker process and hands each of its messages to `onMessage`, with the process, until it has ended. */
export async function perform(args: string[], onMessage: (message: Message, worker: ChildProcess) => void): Promise<Performance> {
  const worker = spawn(process.execPath, [...process.execArgv, fileURLToPath(new URL("worker.ts", import.meta.url)), ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const messages: Message[] = [];
  const ended = new Promise<[number | null, NodeJS.Signals | null]>((resolve, reject) => {
    worker.on("error", reject);
    worker.on("exit", (code, signal) => resolve([code, signal]));
  });
  for await (const line of createInterface({ input: worker.stdout })) {
    const message = JSON.parse(line) as Message;
    messages.push(message);
    onMessage(message, worker);
  }
  const [code, signal] = await ended;
  return { pid: worker.pid, code, signal, messages };
}
