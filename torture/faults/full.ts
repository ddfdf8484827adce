import { cpSync, existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { faultsAfter } from "./check";
import type { Ground, Grounds } from "./grounds";
import { type Order, withLimit, withoutFault } from "./run-child";
import { SmallDisk } from "./small-disk";
import { add, newTally, type Tally, whatIsMissing } from "./sweep";

/** The log of a short run takes more than a megabyte before it is brought into the file. */
const DISK_KB = 8_192;
/** What one is given that its saver shall fill by itself. */
const SMALL_KB = 1_024;

/** A workload on a disk that others have filled but for so much; they make room again when somebody is refused. */
export async function onFullDisk(
  child: string,
  grounds: Grounds,
  folder: string,
  { workload, ground, room, rounds }: { workload: string; ground: Ground; room: number; rounds: number },
): Promise<Tally> {
  const tally = newTally();
  const disk = new SmallDisk(join(folder, "disk"), DISK_KB);
  try {
    const away = await grounds.laid(ground);
    const whole = await withoutFault(child, { ...away, workload, tries: 1, rounds });
    away.remove();
    const place = await grounds.laid(ground, join(disk.folder, "db"));
    // What was done is not written down on the disk that is full.
    const deeds = join(folder, "deeds");
    rmSync(deeds, { force: true });
    if (existsSync(place.deeds)) cpSync(place.deeds, deeds);
    const order: Order = { ...place, deeds, workload, tries: 4, rounds, filler: disk.leave(room) };
    const told = await withoutFault(child, order);
    add(tally, told, [...(await faultsAfter(order, told)), ...whatIsMissing(whole, told)], `${workload}, room for ${room} KB`);
  } finally {
    disk.unmount();
  }
  return tally;
}

/** A disk that the saver's own work fills, to the end of the work: nothing is lost, and a larger disk takes what comes then. */
export async function filledByItself(
  child: string,
  grounds: Grounds,
  folder: string,
  { rounds, kilobytes = SMALL_KB }: { rounds: number; kilobytes?: number },
): Promise<Tally> {
  const tally = newTally();
  const disk = new SmallDisk(join(folder, "disk"), kilobytes);
  try {
    const place = await grounds.laid("nothing", join(disk.folder, "db"));
    const order: Order = { ...place, workload: "saves", tries: 1, rounds };
    const told = await withoutFault(child, order);
    disk.grow(DISK_KB);
    const wrong = await faultsAfter(order, told);
    if (!told.lines.some((line) => line.kind === "refused")) wrong.push("the disk was never full");
    add(tally, told, wrong, `a disk of ${kilobytes} KB filled by its own work`);
  } finally {
    disk.unmount();
  }
  return tally;
}

/** Files may not grow beyond a limit of the process; a fresh process has none. */
export async function underLimit(
  child: string,
  grounds: Grounds,
  { workload, ground, kilobytes, rounds }: { workload: string; ground: Ground; kilobytes: number; rounds: number },
): Promise<Tally> {
  const tally = newTally();
  const place = await grounds.laid(ground);
  const order: Order = { ...place, workload, tries: 1, rounds };
  const told = await withLimit(child, order, kilobytes);
  const wrong = await faultsAfter(order, told);
  if (!told.lines.some((line) => line.kind === "refused" || line.kind === "lost-turn")) wrong.push("the limit was never met");
  add(tally, told, wrong, `${workload}, ulimit -f ${kilobytes}`);
  place.remove();
  return tally;
}
