import { type Point, runner, type Shape } from "./eff-graphs";
import { Deeds } from "../support/eff-world";
import { openSaver } from "../support/open-saver";

/** Runs a graph and dies by a real SIGKILL: `eff-child.ts <shape> <point> <durability> <idempotent> <db> <deeds>`. */
const [shape = "", point = "", durability = "", idempotent = "", db = "", ledger = ""] = process.argv.slice(2);
const at = (here: Point): void => {
  if (here === point) process.kill(process.pid, "SIGKILL");
};
const deeds = new Deeds(ledger);
// Between the end of the function and the commit of its outcome the clock is asked, and nothing else can be seen from outside.
const clock = (): Date => {
  if (deeds.count("act") > 0) at("before outcome");
  return new Date();
};
const saver = openSaver(db, { clock });
saver.events.on("effect", ({ what, effect }) => {
  if (effect.name === "act" && what === "begun") at("after intent");
  if (effect.name === "act" && what === "done") at("after outcome");
});
const options = idempotent === "yes" ? { idempotent: true } : {};
const run = runner(shape as Shape, { saver, deeds, at, options });
void run({ log: [] }, { configurable: { thread_id: "t", task_id: "T" }, durability }).then(() => {
  throw new Error("it should be dead");
});
