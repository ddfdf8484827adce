/** Imports and dies by SIGKILL around a save. Arguments: official file, target, number of the save, "before" or "after". */
import { TurnSaver } from "../../src/index";
import { importOfficial } from "../../src/import/index";
import { dieNow, quiet } from "../support/s1-tools";

const [, , file = "", target = "", at = "0", when = "before"] = process.argv;
const saver = TurnSaver.fromPath(target, { logger: quiet });
let saves = 0;
for (const method of ["put", "putWrites"] as const) {
  const real = saver[method].bind(saver) as (...args: unknown[]) => Promise<unknown>;
  (saver as any)[method] = async (...args: unknown[]) => {
    saves += 1;
    if (saves === Number(at) && when === "before") dieNow();
    const result = await real(...args);
    if (saves === Number(at)) dieNow();
    return result;
  };
}
await importOfficial(saver, file);
console.log(JSON.stringify({ saves }));
