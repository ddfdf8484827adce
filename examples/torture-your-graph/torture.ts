// Kills two graphs with SIGKILL, resumes them in other processes, and prints what was repeated or lost. A real matrix leaves
// `points` out and kills at every boundary; this one uses a few, to be quick.
import assert from "node:assert/strict";
import { crashMatrix } from "langgraph-checkpoint-turns/testing";

const careful = await crashMatrix(new URL("./order-careful.ts", import.meta.url), {
  points: ["effect-body.after", "effect-outcome.within"],
});
console.log(String(careful));

const careless = await crashMatrix(new URL("./order-careless.ts", import.meta.url), { points: ["action.within"] });
console.log(String(careless));

assert.ok(careful.ok);
assert.deepEqual(
  careless.problems.map(({ kind }) => kind),
  ["repeated-side-effect"],
);
