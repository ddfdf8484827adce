/**
 * Saves turns through a CheckpointPersister, alternately Thought and Action, and dies without warning after some of them.
 * Arguments: file, turns to save, turn after which the process is killed (0: before the first).
 */
import Database from "better-sqlite3";
import { openPersister } from "../support/open-persister";
import { ON_POSTGRES } from "../support/open-saver";
import { dieNow } from "../support/s1-tools";

const [, , file = "", count = "5", last = "3"] = process.argv;
const persister = openPersister(file, ON_POSTGRES ? undefined : new Database(file));
for (let turn = 1; turn <= Number(count); turn += 1) {
  if (turn > Number(last)) dieNow();
  await persister.save({
    id: `turn-${turn}`,
    graphId: "graph",
    nodeName: `node-${Math.ceil(turn / 2)}`,
    turnType: turn % 2 === 1 ? "Thought" : "Action",
    state: { turn, done: Array.from({ length: turn }, (_, index) => index + 1) },
    taskId: "task",
    createdAt: new Date(Date.UTC(2030, 0, 1, 0, 0, turn)),
  });
}
