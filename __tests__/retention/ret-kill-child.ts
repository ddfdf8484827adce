import { openSaver } from "../support/open-saver";

/** Prunes in small batches and dies by SIGKILL in the middle. */
const [path = "", threadId = ""] = process.argv.slice(2);
const saver = openSaver(path);
setTimeout(() => process.kill(process.pid, "SIGKILL"), 5);
let rounds = 0;
const stop = (): void => {
  rounds += 1;
  if (rounds > 20) process.kill(process.pid, "SIGKILL");
  setImmediate(stop);
};
stop();
await saver.prune({ threadId, keepLast: 1, batchSize: 1 });
