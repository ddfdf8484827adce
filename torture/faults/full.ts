import { cpSync, existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { faultsAfter } from "./check";
import type { Ground, Grounds } from "./grounds";
import { type Order, withLimit, withoutFault } from "./run-child";
import { SmallDisk } from "./small-disk";
import { add, newTally, type Tally, whatIsMissing } from "./sweep";

/** The log of a short run takes more than a megabyte before it is moved into the file. */
const DISK_KB = 8_192;
/** The size of a disk that the saver fills by itself. */
const SMALL_KB = 1_024;

/** A workload on a disk that another program has nearly filled. It frees room again at the first refusal. */
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
    // The record of side effects is on another disk than the full one.
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

/** The saver's own work fills the disk: nothing is lost, and the work finishes on a larger disk. */
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
