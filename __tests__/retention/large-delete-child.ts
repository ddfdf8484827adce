import { TurnSaver } from "../../src/index";
import { quiet } from "../support/s1-tools";

/** Begins to delete a thread, and dies by SIGKILL after so many turns of the event loop. */
const [path = "", threadId = "", turns = "1", key = ""] = process.argv.slice(2);
const saver = TurnSaver.fromPath(path, { logger: quiet, synchronous: "normal", ...(key === "" ? {} : { encryption: { key } }) });

let turn = 0;
const count = (): void => {
  turn += 1;
  if (turn === Number(turns)) process.kill(process.pid, "SIGKILL");
  setImmediate(count);
};
setImmediate(count);
await saver.deleteThread(threadId);
process.exit(3);
