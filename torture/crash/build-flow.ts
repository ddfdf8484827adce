import { entrypoint, getConfig, task } from "@langchain/langgraph";
import type { TurnSaver } from "langgraph-checkpoint-turns";
import { type BodyParts, bodyWork, type Callee, digest, type World } from "./bodies";
import { stepsWork } from "./bodies";
import { addCallees } from "./build-graph";
import type { FlowPlan, GraphPlan } from "./plan";

const retry = { maxAttempts: 3, initialInterval: 1, jitter: false, retryOn: () => true, logWarning: false };

/** Tasks of a stage run side by side; the entrypoint itself runs again in every resume, and ends once. */
export function buildFlow(saver: TurnSaver, world: World, { stages }: FlowPlan): any {
  const callees = new Map<GraphPlan, Callee>();
  for (const stage of stages) {
    for (const steps of "steps" in stage ? [stage.steps] : stage.tasks.map((body) => body.steps))
      addCallees(world, callees, steps);
  }
  const parts: BodyParts = { world, callees, unsaved: false };
  const ready = stages.map((stage, at) => {
    if ("steps" in stage) return async (sum: number) => stepsWork(parts, `flow ${at}(${sum})`, stage.steps);
    const tasks = stage.tasks.map((body, index) => {
      const name = `t${at}_${index}`;
      return task({ name, ...(body.fails === "retried" ? { retry } : {}) }, (sum: number) =>
        bodyWork(parts, name, body, `${sum}`),
      );
    });
    return async (sum: number) => (await Promise.all(tasks.map((each) => each(sum)))).map(String);
  });
  const flow = entrypoint({ name: "flow", checkpointer: saver }, async ({ seed }: { seed: number }) => {
    const id = String(getConfig()?.metadata?.["langgraph_checkpoint_ns"]).split(":").at(-1) ?? "";
    world.ledger.add({ t: "start", id, l: "flow", unsaved: false });
    world.point("start flow");
    const log: string[] = [];
    for (const run of ready) log.push(...(await run(digest(`${seed} ${log.join(" ")}`))));
    world.ledger.add({ t: "end", id, l: "flow", unsaved: false });
    world.point("end flow");
    return { log };
  });
  return saver.attach(flow as never);
}
