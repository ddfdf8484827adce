/**
 * Runs a → b → c on a thread and writes the names of the nodes that ran, as JSON.
 * Arguments: file, thread, "run" | "resume", the node in whose body the process is killed ("-": none), "hang:<node>" waits there instead.
 */
import { GraphRunner } from "../../src/index";
import { chain } from "./s1-graph";
import { dieNow, quiet } from "./s1-tools";
import { openSaver } from "./open-saver";

const [, , file = "", threadId = "t", mode = "run", at = "-"] = process.argv;
const ran: string[] = [];
const saver = openSaver(file, { logger: quiet });
const runner = new GraphRunner(
  chain(saver, async (node) => {
    ran.push(node);
    if (at === node) dieNow();
    if (at !== `hang:${node}`) return;
    console.log(JSON.stringify({ at: node }));
    await new Promise((resolve) => setTimeout(resolve, 600_000));
  }),
);
const state =
  mode === "run" ? await runner.invoke({ log: ["in"] }, { threadId, taskId: "task" }) : await runner.resume({ threadId });
console.log(JSON.stringify({ ran, state }));
saver.close();
