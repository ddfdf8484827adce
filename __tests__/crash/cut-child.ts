import { vacuum } from "langgraph-checkpoint-turns/maintenance";
import { createInterface } from "node:readline";
import { TurnSaver, TurnsError } from "langgraph-checkpoint-turns";
import { save } from "../../torture/faults/histories";

/** Saves what it is told to, a line each, and says how each save ended. */
const quiet = { debug() {}, info() {}, warn() {}, error() {} };
const saver = TurnSaver.fromPath(process.argv[2] ?? "", { logger: quiet });
console.log("ready");
/** Everything that makes the file or its log shorter, again and again. */
async function busy(rounds: number): Promise<void> {
  for (let round = 0; round < rounds; round += 1) {
    await save(saver, round);
    const copy = `copy of ${process.pid}`;
    if (round % 10 === 3) await saver.copyThread("t0", copy);
    if (round % 10 === 8) await saver.deleteThread(copy);
    if (round % 5 === 4) await vacuum(saver, { full: round % 15 === 14 });
  }
}

void (async () => {
  for await (const line of createInterface({ input: process.stdin })) {
    const order = JSON.parse(line) as { save?: number; busy?: number; end?: "close" | "exit" };
    if (order.end === "close") saver.close();
    if (order.end !== undefined) process.exit(0);
    const work = order.busy === undefined ? save(saver, order.save ?? 0) : busy(order.busy);
    console.log(
      await work.then(
        () => "no error",
        (error: unknown) => (TurnsError.is(error) ? `${error.code} ${error.message}` : String(error)),
      ),
    );
  }
})();
