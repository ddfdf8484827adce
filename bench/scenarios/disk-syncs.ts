import { join } from "node:path";
import { whyNoStrace } from "../../torture/power-loss/record";
import { OFFICIAL, OURS_FULL } from "../drive/contenders";
import { tracedSyncs } from "../measure/disk-syncs";
import { withFolder } from "../measure/file-size";
import { perStep, type Reading } from "../measure/growth";
import { Samples } from "../measure/samples";
import type { Result, Scenario } from "./scenario";

const CHILD = new URL("./disk-syncs-child.ts", import.meta.url);
export const SYNCS = "disk syncs per superstep";

/** How often a saver waits for the disk, if each commit has to survive a power cut. */
export const diskSyncs: Scenario = {
  name: "disk-syncs",
  run: async ({ contenders: all, quick }): Promise<Result> => {
    const lengths: [number, number] = quick ? [20, 70] : [40, 240];
    const contenders = all.filter(({ id }) => id === OFFICIAL || id === OURS_FULL);
    const samples = new Samples();
    const why = whyNoStrace();
    if (why === undefined) {
      for (const { id } of contenders) samples.add(SYNCS, id, await syncsPerSuperstep(id, lengths), "count");
    }
    return {
      name: "disk-syncs",
      title: "Disk syncs per superstep, fully durable",
      contenders,
      samples,
      facts: {},
      notes: [
        `\`fsync\` and \`fdatasync\` on the saver's files, counted by \`strace\` in a process that runs a real graph, with SQLite's \`synchronous\` = FULL.`,
        `A run of ${lengths[1]} supersteps minus one of ${lengths[0]}, so that opening and closing don't count. Syncs of SQLite's automatic checkpoints do count.`,
      ],
      ...(why === undefined ? {} : { absent: [`the disk syncs: ${why}`] }),
    };
  },
};

async function syncsPerSuperstep(contenderId: string, lengths: readonly [number, number]): Promise<number> {
  const [from, to] = await Promise.all(lengths.map((supersteps) => reading(contenderId, supersteps)));
  return perStep(from!, to!);
}

function reading(contenderId: string, supersteps: number): Promise<Reading> {
  return withFolder(async (folder) => {
    const given = [contenderId, String(supersteps), join(folder, "syncs.db")];
    return { at: supersteps, count: tracedSyncs(CHILD, given, folder) };
  });
}
