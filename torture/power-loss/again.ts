import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { TurnSaver } from "langgraph-checkpoint-turns";
import type { Image, Operation } from "./disk";
import type { Expected } from "./expected";
import { type Ack, standing } from "./facts";
import { laidOut, record } from "./record";

const quiet = { debug() {}, info() {}, warn() {}, error() {} };

/** What a power cut left, and what had been acknowledged and done until then. */
export interface Left {
  image: Image;
  expected: Expected;
}

/**
 * Opens what a power cut left, continues it, and records that, so that the power can be cut once more, also during the recovery.
 * All that the image shows when it is opened counts as acknowledged.
 *
 * @returns the operations, and from which of them on the power may be cut
 */
export async function recordAgain(script: string, { image, expected }: Left): Promise<{ operations: Operation[]; from: number }> {
  const recorded = await record(script, [JSON.stringify(expected.deeds)], image);
  const files = image.size === 0 ? 0 : 3 * image.size + 1;
  const shown = (await shownBy(image, expected)).map((ack): Operation => ({ kind: "ack", line: JSON.stringify(ack) }));
  return { operations: [...recorded.slice(0, files), ...shown, ...recorded.slice(files)], from: files + shown.length };
}

async function shownBy(image: Image, { threads, deeds }: Expected): Promise<Ack[]> {
  const home = mkdtempSync(join(tmpdir(), "turns-image-"));
  const saver = TurnSaver.fromPath(laidOut(join(home, "disk"), image), { logger: quiet });
  try {
    const acks: Ack[] = deeds.map(({ what, ...deed }) => ({ k: what, ...deed }));
    // After the side effects: the thread's state replaces what would be expected from them alone.
    for (const t of threads.keys()) acks.push({ k: "stands", t, what: "power cut", facts: [...(await standing(saver, t))] });
    return [...acks, { k: "opened" }];
  } finally {
    saver.close();
    rmSync(home, { recursive: true, force: true });
  }
}
