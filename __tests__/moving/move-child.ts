/**
 * Moves thread "t" and dies by SIGKILL at a failpoint. Arguments: kind and path of the source and of the target, the failpoint, and which time
 * it is reached.
 */
import { moveThread } from "../../src/maintenance/index";
import { setFailpointHandler } from "../../src/testing-internal";
import { dieNow } from "../support/s1-tools";
import { openAt, type Place } from "./move-world";

const [, , kind, path = "", otherKind, otherPath = "", point = "", nth = "1"] = process.argv;
const from = openAt({ kind: kind as Place["kind"], path });
const to = openAt({ kind: otherKind as Place["kind"], path: otherPath });
let times = 0;
setFailpointHandler((reached) => {
  if (reached === point && (times += 1) === Number(nth)) dieNow();
});
await moveThread(from, to, "t");
console.log(JSON.stringify({ times }));
process.exit(0);
