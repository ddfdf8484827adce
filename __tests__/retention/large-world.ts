import { copyFileSync } from "node:fs";
import { TurnSaver, type TurnSaverOptions } from "langgraph-checkpoint-turns";
import { makeLarge } from "./large-thread";
import { quiet } from "../support/s1-tools";
import { tempFile } from "../support/temp";

export const KEY = "6b1f0c93d2a4e58717c90ab3fe5d62480199aabbccddeeff1122334455667788";
export const CHECKPOINTS = 350;
export const KINDS: [string, TurnSaverOptions][] = [
  ["plain", {}],
  ["encrypted", { encryption: { key: KEY } }],
];

const savers: TurnSaver[] = [];
export function open(path: string, options: TurnSaverOptions = {}): TurnSaver {
  const saver = TurnSaver.fromPath(path, { logger: quiet, synchronous: "normal", ...options });
  savers.push(saver);
  return saver;
}
afterEach(() => {
  for (const saver of savers.splice(0)) saver.close();
});

const templates = new Map<string, string>();

/** A file with a thread "large" of so many checkpoints. It is made once for all tests; each has a copy of its own. */
export async function withLarge(
  options: TurnSaverOptions = {},
  first = async (_: TurnSaver): Promise<void> => {},
): Promise<string> {
  const name = `${JSON.stringify(options)} ${first.name}`;
  let template = templates.get(name);
  if (template === undefined) {
    template = tempFile();
    const saver = TurnSaver.fromPath(template, { logger: quiet, synchronous: "normal", ...options });
    await first(saver);
    await makeLarge(saver, "large", CHECKPOINTS);
    saver.close();
    templates.set(name, template);
  }
  const path = tempFile();
  copyFileSync(template, path);
  return path;
}

export const at = (threadId: string) => ({ configurable: { thread_id: threadId } });
export const headOf = async (saver: TurnSaver, threadId: string): Promise<number | undefined> =>
  (await saver.getTuple(at(threadId)))?.metadata?.step;

/** Does something in each turn of the event loop until the work has ended. @returns how many turns there were */
export async function meanwhile(work: Promise<unknown>, each: (turn: number) => Promise<void>): Promise<number> {
  let ended = false;
  const done = work.finally(() => (ended = true));
  let turns = 0;
  while (!ended) {
    await new Promise(setImmediate);
    if (!ended) await each((turns += 1));
  }
  await done;
  return turns;
}
