import { type Mishap, resumed, type Shape } from "./answers-graphs";

/** `answers-child.ts <db> <shape> <resume> <mishap>`: {@link resumed}, both as JSON. Exits with 4 if the answer was refused. */
const [path = "", shape = "", resume = "null", mishap = "null"] = process.argv.slice(2);

void resumed(path, shape as Shape, JSON.parse(resume), JSON.parse(mishap) as Mishap).then((outcome) => {
  process.exitCode = outcome === "ran" ? 0 : 4;
});
