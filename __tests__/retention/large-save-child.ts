import { TurnSaver } from "../../src/index";
import { makeLarge } from "./large-thread";
import { quiet } from "../support/s1-tools";

/** Saves on thread "large" until it is killed, and says so after its first saves. */
const [path = "", key = ""] = process.argv.slice(2);
const saver = TurnSaver.fromPath(path, { logger: quiet, synchronous: "normal", ...(key === "" ? {} : { encryption: { key } }) });
for (let round = 0; ; round += 1) {
  await makeLarge(saver, "large", 5);
  if (round === 0) process.stdout.write("{}\n");
  await new Promise((resolve) => setTimeout(resolve, 1));
}
