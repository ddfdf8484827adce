import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { GraphRunner, type TurnSaver, TurnsError } from "langgraph-checkpoint-turns";
import { GAVE_UP, type Scribe } from "./scribe";
import { effectUndoneBy, undosNamed } from "../../__tests__/support/undo-world";

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (left, right) => [...left, ...right], default: () => [] }),
});

/** The result of a run of the errands, no matter what happened on the way. */
export const OUTCOME = ["in", "charge", "s1", "sms", "mail", "end"];
export const TASKS = ["T1", "T2", "T3"];

const FREE_WITHIN_MS = 60_000;

/** What was really done, by name and key. It is stored where no fault is injected. */
export class Deeds {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  do(name: string, key: string): void {
    appendFileSync(this.#path, `${name} ${key}\n`);
  }

  keysOf(name: string): string[] {
    const lines = existsSync(this.#path) ? readFileSync(this.#path, "utf8").split("\n") : [];
    return lines.filter((line) => line.startsWith(`${name} `)).map((line) => line.slice(name.length + 1));
  }

  has(name: string, key: string): boolean {
    return this.keysOf(name).includes(key);
  }
}

/**
 * First a node with an effect without a probe. Then in parallel a node with a probed effect, and a graph of two nodes whose effect's
 * receiver honours the key. Then a last node.
 */
export function errands(saver: TurnSaver, deeds: Deeds, at: (place: string) => void = () => undefined) {
  const inner = new StateGraph(State)
    .addNode("s1", () => ({ log: ["s1"] }))
    .addNode("s2", async () => {
      await effectUndoneBy("back", "sms", (key) => deeds.do("sms", key), { idempotent: true });
      return { log: ["sms"] };
    })
    .addEdge(START, "s1")
    .addEdge("s1", "s2")
    .compile();
  const graph = new StateGraph(State)
    .addNode("charge", async () => {
      at("charge");
      await effectUndoneBy("back", "charge", (key) => {
        deeds.do("charge", key);
        at("charged");
      });
      return { log: ["charge"] };
    })
    .addNode("mail", async () => {
      const probe = (key: string) => (deeds.has("mail", key) ? "sent" : undefined);
      await effectUndoneBy("back", "mail", (key) => (deeds.do("mail", key), "sent"), { probe });
      at("mailed");
      return { log: ["mail"] };
    })
    .addNode("inner", async (_, config) => {
      const { log } = await inner.invoke({ log: [] }, config);
      return { log };
    })
    .addNode("last", () => ({ log: ["end"] }))
    .addEdge(START, "charge")
    .addEdge("charge", "mail")
    .addEdge("charge", "inner")
    .addEdge(["mail", "inner"], "last")
    .addEdge("last", END)
    .compile({ checkpointer: saver });
  const back = ({ effect: { name }, key }: { effect: { name: string }; key: string }) => deeds.do(`undo-${name}`, key);
  // A bundled child and the process that checks it have the same graph, compiled differently.
  return new GraphRunner(graph, { undos: undosNamed({ back: back as never }), drift: "continue" });
}

/** Runs a task to its end, as a program that continues after every refusal. @returns whether it finished */
export async function runTask(
  scribe: Scribe,
  runner: ReturnType<typeof errands>,
  deeds: Deeds,
  [threadId, taskId]: [string, string],
): Promise<boolean> {
  const { saver } = runner;
  let failedSaves = 0;
  saver.events.on("checkpoint_failed", () => (failedSaves += 1));
  saver.events.on("turn_failed", ({ error }) => {
    scribe.say({ kind: "lost-turn", code: (error as { code?: string }).code ?? String(error) });
  });
  const attempt = async (): Promise<unknown> => {
    failedSaves = 0;
    const state = await runner.resume({ threadId, taskId, input: { log: ["in"] } });
    if (failedSaves > 0) scribe.wrong(`${taskId}: a checkpoint was not saved, and the run finished as if it had been`);
    return state;
  };
  for (let tries = 0, doubts = 0; tries < scribe.tries; tries += 1) {
    try {
      const { log } = (await attempt()) as { log: string[] };
      scribe.ack(taskId, log);
      return true;
    } catch (error) {
      scribe.refused(`run ${taskId}`, error);
      if (!(await isFree(scribe, saver, threadId))) scribe.wrong(`${threadId} is left locked`);
      // A person looks into the world, and settles it.
      if (doubts < 6 && TurnsError.is(error, "EFFECT_IN_DOUBT") && (await settled(scribe, saver, deeds, error)) !== GAVE_UP) {
        doubts += 1;
        tries -= 1;
      }
    }
  }
  return false;
}

/** A run fails with its first error; its other branches may run for a moment longer. */
async function isFree(scribe: Scribe, saver: TurnSaver, threadId: string): Promise<boolean> {
  for (const deadline = Date.now() + FREE_WITHIN_MS; Date.now() < deadline;) {
    if ((await scribe.step("isRunning", () => saver.turns.isRunning(threadId))) !== true) return true;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return false;
}

/** Settles an effect, or an undo, that is in doubt by what was really done. */
export function settled(scribe: Scribe, saver: TurnSaver, deeds: Deeds, error: TurnsError): Promise<unknown> {
  const id = error.data["effectId"] as string;
  return scribe.step("resolve", async () => {
    const { name, key, status } = await saver.effects.get(id);
    if (status === "done") return saver.effects.resolve(id, { undo: deeds.has(`undo-${name}`, key) ? "done" : "not-done" });
    return saver.effects.resolve(id, { outcome: deeds.has(name, key) ? "done" : "not-done" });
  });
}
