import { createInterface } from "node:readline";
import { TurnSaver, TurnsError } from "langgraph-checkpoint-turns";
import { save } from "../../torture/faults/histories";

/** Saves what it is told to, a line each, and says how each save ended. */
const quiet = { debug() {}, info() {}, warn() {}, error() {} };
const saver = TurnSaver.fromPath(process.argv[2] ?? "", { logger: quiet });
console.log("ready");
void (async () => {
  for await (const line of createInterface({ input: process.stdin })) {
    const order = JSON.parse(line) as { save?: number; end?: "close" | "exit" };
    if (order.end === "close") saver.close();
    if (order.end !== undefined) process.exit(0);
    const code = await save(saver, order.save ?? 0).then(
      () => "no error",
      (error: unknown) => (TurnsError.is(error) ? error.code : String(error)),
    );
    console.log(code);
  }
})();
