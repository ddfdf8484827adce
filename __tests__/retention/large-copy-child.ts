import { existsSync } from "node:fs";
import { TurnSaver } from "../../src/index";
import { leftovers } from "./large-thread";
import { quiet } from "../support/s1-tools";

/**
 * Copies thread "large" to "copy". Some turns of the event loop after it began to write it dies by SIGKILL (`how` is their number), or says
 * so and stands still until a file is there (`how` is its path).
 */
const [path = "", how = "1", key = ""] = process.argv.slice(2);
const saver = TurnSaver.fromPath(path, { logger: quiet, synchronous: "normal", ...(key === "" ? {} : { encryption: { key } }) });
const turnsToLive = Number(how);
const still = new Int32Array(new SharedArrayBuffer(4));

let turns = 0;
const watch = (): void => {
  if (turns > 0 || leftovers(path).length > 0) turns += 1;
  if (turns === turnsToLive) process.kill(process.pid, "SIGKILL");
  if (Number.isNaN(turnsToLive) && turns === 2) {
    process.stdout.write("{}\n");
    while (!existsSync(how)) Atomics.wait(still, 0, 0, 20);
  }
  setImmediate(watch);
};
setImmediate(watch);
await saver.copyThread("large", "copy");
saver.close();
process.exit(0);
