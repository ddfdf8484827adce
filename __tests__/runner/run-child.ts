import { line, SideEffects, world } from "../support/run-world";

/**
 * `run-child.ts <db> <invoke, exit or resume> <labels> [node to break, or to die in]`: another process that shares only the file. Prints
 * a line of JSON: the result, or the code and message of the error.
 */
const [path = "", what = "", labels = "a,b,c", at = "", mode = "break"] = process.argv.slice(2);
const { saver } = world(path);
const runner = line({ saver, ledger: new SideEffects(`${path}.ledger`) }, labels.split(","), {
  [at]: () => {
    if (mode === "die") process.kill(process.pid, "SIGKILL");
    throw new Error("it is broken");
  },
});
const how = what === "exit" ? ({ taskId: "lost", durability: "exit" } as const) : {};
const work = what === "resume" ? runner.resume({ threadId: "t" }) : runner.invoke({ log: ["in"] }, { threadId: "t", ...how });
const told = await work.then(
  (result: unknown) => ({ result }),
  (error: unknown) => ({ code: (error as { code?: string }).code, message: (error as Error).message }),
);
process.stdout.write(`${JSON.stringify(told)}\n`);
saver.close();
