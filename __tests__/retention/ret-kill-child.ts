import { openSaver } from "../support/open-saver";

/** Prunes in small batches and dies by SIGKILL in the middle: after some batches, and a moment. */
const [path = "", threadId = ""] = process.argv.slice(2);
const saver = openSaver(path);
const die = (): void => void process.kill(process.pid, "SIGKILL");
const { signal } = new AbortController();
const last = 5 + Math.floor(Math.random() * 20);
let batches = 0;
// It's asked before each batch.
Object.defineProperty(signal, "aborted", {
  get: () => {
    batches += 1;
    if (batches === last) setTimeout(die, Math.random() * 3);
    return false;
  },
});
await saver.prune({ threadId, keepLast: 1, batchSize: 1, signal });
