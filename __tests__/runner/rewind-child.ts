import { setFailpointHandler } from "../../src/testing-internal";
import { openSaver } from "../support/open-saver";
import { dieNow } from "../support/s1-tools";
import { undosNamed } from "../support/undo-world";

/** Rewinds thread "t" to task "one", and dies by SIGKILL when it has undone one effect. Argument: the path of the store. */
const saver = openSaver(process.argv[2]!, { synchronous: "normal" });
let undone = 0;
setFailpointHandler((name) => {
  if (name === "undo-body.after") undone += 1;
  if (name === "undo-mark.after" && undone === 1) dieNow();
});
await saver.rewind({ threadId: "t", toTask: "one" }, undosNamed({ back: () => undefined }));
