import { GraphRunner } from "../../src/index";
import { lineGraph, SideEffects, world } from "../support/run-world";
import { effectUndoneBy, undosNamed } from "../support/undo-world";

/**
 * `run-gate-child.ts <db> <do> [die in]`: a gate that b never passes, with two rollbacks at most, and an effect in b. Dies by SIGKILL in
 * the undo, or in the validator. Prints the code it ends with.
 */
const [path = "", what = "", dieIn = ""] = process.argv.slice(2);
const { saver } = world(path);
const ledger = new SideEffects(`${path}.ledger`);
const die = (where: string): void => void (where === dieIn && process.kill(process.pid, "SIGKILL"));
const graph = lineGraph({ saver, ledger }, ["a", "b", "c"], {
  b: async () => {
    await effectUndoneBy("unmail", "mail", () => void ledger.happen("mail"));
    return { log: ["b"] };
  },
});
const runner = new GraphRunner(graph, {
  gates: { onFailure: "rollback", maxRollbacks: 2 },
  nodes: {
    b: {
      validate: () => {
        die("validator");
        return 0.1;
      },
    },
  },
  undos: undosNamed({
    unmail: () => {
      die("undo");
      ledger.happen("unmail");
    },
  }),
});
const work = async (): Promise<unknown> => {
  if (what === "finish") return runner.finishRewind({ threadId: "t" });
  return what === "resume" ? runner.resume({ threadId: "t" }) : runner.invoke({ log: ["in"] }, { threadId: "t" });
};
const told = await work().then(
  () => "done",
  (error: unknown) => (error as { code?: string }).code ?? String(error),
);
process.stdout.write(`${JSON.stringify({ code: told })}\n`);
saver.close();
