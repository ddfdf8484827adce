import fc from "fast-check";
import {
  Annotation,
  Command,
  type CompiledStateGraph,
  entrypoint,
  interrupt,
  Send,
  START,
  StateGraph,
  task,
} from "@langchain/langgraph";
import { defineEffect, GraphRunner } from "langgraph-checkpoint-turns";
import { runs } from "../support/lane";
import { openSaver } from "../support/open-saver";
import { quiet } from "../support/s1-tools";

/*
 * A node with a retry policy calls tasks, and fails. Its next attempt, in the same process or after a resume, calls the same tasks in the same
 * order. LangGraph numbers them on, so it would not find the results that are there.
 */

const retry = { maxAttempts: 2, initialInterval: 1, jitter: false, logWarning: false };
const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (one, other) => one.concat(other), default: () => [] }),
  item: Annotation<string>({ reducer: (_, next) => next, default: () => "" }),
});
type Graph = CompiledStateGraph<typeof State.State, typeof State.Update, string>;

const SURROUNDINGS = ["node", "sends", "called", "entrypoint", "task"] as const;

interface Plan {
  around: (typeof SURROUNDINGS)[number];
  /** The tasks that are called together, one group after the other, each with the milliseconds that it takes. */
  groups: number[][];
  /** Where each attempt fails: behind a group, or in a task of it, before or behind its effect. */
  failures: { group: number; where: "behind" | "in a task" | "in a task, behind its effect" }[];
  durability: "sync" | "async" | "exit";
}

const arbPlan: fc.Arbitrary<Plan> = fc.record({
  around: fc.constantFrom(...SURROUNDINGS),
  groups: fc.array(fc.array(fc.constantFrom(0, 0, 3), { minLength: 1, maxLength: 3 }), { minLength: 1, maxLength: 3 }),
  failures: fc.array(
    fc.record({ group: fc.nat(2), where: fc.constantFrom("behind", "in a task", "in a task, behind its effect") }),
    { minLength: 1, maxLength: 4 },
  ),
  durability: fc.constantFrom("sync", "async", "exit"),
});

/** Runs a plan until it's done. @returns what came out of it, and what has been done */
async function carriedOut({ around, groups, failures, durability }: Plan): Promise<{ log: string[]; done: string[] }> {
  const done: string[] = [];
  const left = new Map<string, Plan["failures"]>();
  const failsAt = (item: string, group: number, where: string): void => {
    const mine = left.get(item) ?? [...failures];
    left.set(item, mine);
    if (mine[0]?.group !== group || mine[0].where !== where) return;
    mine.shift();
    throw new Error("503");
  };
  const send = defineEffect("send", { run: ({ what }: { what: string }) => void done.push(what), undo: false });
  const work = task("work", async (item: string, group: number, at: number) => {
    const takes = groups[group]?.[at] ?? 0;
    if (takes > 0) await new Promise((resolve) => setTimeout(resolve, takes));
    if (at === 0) failsAt(item, group, "in a task");
    const what = `${item}${group}.${at}`;
    await send({ what });
    if (at === 0) failsAt(item, group, "in a task, behind its effect");
    return what;
  });
  const body = async (item: string): Promise<{ log: string[] }> => {
    const log: string[] = [];
    for (const [group, tasks] of groups.entries()) {
      log.push(...(await Promise.all(tasks.map((_, at) => work(item, group, at)))));
      failsAt(item, group, "behind");
    }
    return { log };
  };

  const saver = openSaver(":memory:", { logger: quiet });
  const graph = graphAround(around, body).compile(saver);
  const runner = new GraphRunner(graph as Graph);
  const how = { threadId: "t", durability };
  let result = await runner.invoke({ log: [] }, how).catch(() => undefined);
  for (let tries = 0; result === undefined && tries < 10; tries += 1) {
    result = await runner.resume(how).catch(() => undefined);
  }
  expect(await saver.verify()).toMatchObject({ ok: true });
  await (saver.close() as unknown);
  return { log: (result as { log: string[] } | undefined)?.log ?? [], done: done.toSorted() };
}

function graphAround(around: Plan["around"], body: (item: string) => Promise<{ log: string[] }>) {
  const builder = new StateGraph(State);
  const compile = (checkpointer: ReturnType<typeof openSaver>): unknown => {
    if (around === "entrypoint") return entrypoint({ name: "root", checkpointer }, async (_: object) => body("a"));
    if (around === "task") {
      const outer = task({ name: "outer", retry }, () => body("a"));
      return entrypoint({ name: "root", checkpointer }, async (_: object) => outer());
    }
    if (around === "sends") {
      builder.addNode("n", ({ item }: { item: string }) => body(item), { retryPolicy: retry });
      builder.addNode("first", () => ({})).addEdge(START, "first");
      builder.addConditionalEdges("first" as never, () => ["a", "b"].map((item) => new Send("n", { item })));
    } else if (around === "called") {
      const inner = new StateGraph(State)
        .addNode("n", () => body("a"))
        .addEdge(START, "n")
        .compile();
      const around = async () => ({ log: (await inner.invoke({ log: [] })).log });
      builder.addNode("around", around, { retryPolicy: retry }).addEdge(START, "around");
    } else {
      builder.addNode("n", () => body("a"), { retryPolicy: retry }).addEdge(START, "n");
    }
    return builder.compile({ checkpointer });
  };
  return { compile };
}

test("S2.9 property: a node that is tried again calls each of its tasks once more only if that has failed", async () => {
  await fc.assert(
    fc.asyncProperty(arbPlan, async (plan) => {
      const all = (plan.around === "sends" ? ["a", "b"] : ["a"]).flatMap((item) =>
        plan.groups.flatMap((tasks, group) => tasks.map((_, at) => `${item}${group}.${at}`)),
      );
      expect(await carriedOut(plan)).toEqual({ log: all, done: all.toSorted() });
    }),
    {
      numRuns: runs(60, 600),
      examples: SURROUNDINGS.flatMap((around): [Plan][] => [
        [{ around, groups: [[0], [0], [0]], failures: [{ group: 1, where: "behind" }], durability: "async" }],
        [
          {
            around,
            groups: [[0, 0], [0]],
            failures: [
              { group: 0, where: "behind" },
              { group: 0, where: "behind" },
            ],
            durability: "async",
          },
        ],
        [{ around, groups: [[0, 3], [0]], failures: [{ group: 0, where: "in a task" }], durability: "sync" }],
      ]),
    },
  );
});

test.each(["by id", "plain"])("S4.1 a task's question behind a failed attempt gets its own answer, %s", async (how) => {
  let failures = 1;
  const prepare = task("prepare", async () => "p");
  const ask = task("ask", async (question: string) => `${question} ${interrupt(question)}`);
  const body = async () => {
    const log = [await prepare(), await ask("delete A?")];
    if (failures-- > 0) throw new Error("503");
    return { log: [...log, await ask("keep B?")] };
  };
  const saver = openSaver(":memory:", { logger: quiet });
  const graph = new StateGraph(State)
    .addNode("n", body, { retryPolicy: retry })
    .addEdge(START, "n")
    .compile({ checkpointer: saver });
  const runner = new GraphRunner(graph);
  await runner.invoke({ log: [] }, { threadId: "t" });
  let result: unknown;
  for (const question of ["delete A?", "keep B?"]) {
    const [open, ...others] = (await runner.status("t")).waiting;
    expect([open?.value, others]).toEqual([question, []]);
    const resume = how === "plain" ? `yes to ${question}` : { [open?.id ?? ""]: `yes to ${question}` };
    result = await runner.resume({ threadId: "t", command: new Command({ resume }) });
  }
  expect(result).toMatchObject({ log: ["p", "delete A? yes to delete A?", "keep B? yes to keep B?"] });
  await (saver.close() as unknown);
});
