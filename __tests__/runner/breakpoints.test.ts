import { copyFileSync, existsSync } from "node:fs";
import { Annotation, Command, interrupt, START, StateGraph } from "@langchain/langgraph";
import { GraphRunner, type TurnSaver } from "../../src/index";
import { internalsOf, setFailpointHandler } from "../../src/testing-internal";
import { pairs } from "../support/lane";
import { openSaver } from "../support/open-saver";
import { tempFile } from "../support/temp";
import { testOfFiles } from "../support/test-of-files";

/* `interruptBefore` and `interruptAfter`: where a person looks before the run continues. */

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
});
const quiet = { debug() {}, info() {}, warn() {}, error() {} };

type Place = "own" | "nested" | "two deep" | "kept" | "called";
interface Shape {
  place: Place;
  stop: { interruptBefore?: string[] | "*"; interruptAfter?: string[] | "*" };
}

/** x → y in a graph that stops between them, and the graphs around it. `y` asks a question. */
function graphOf(saver: TurnSaver, { place, stop }: Shape, body: (node: string) => void = () => undefined) {
  const note = (node: string) => () => {
    body(node);
    return { log: [node] };
  };
  const line = (checkpointer: TurnSaver | true | undefined) =>
    new StateGraph(State)
      .addNode("x", note("x"))
      .addNode("y", () => {
        body("y");
        return { log: [`y: ${interrupt("deploy?")}`] };
      })
      .addEdge(START, "x")
      .addEdge("x", "y")
      .compile({ checkpointer, ...stop } as object);
  const around = (inside: object, checkpointer?: TurnSaver) =>
    new StateGraph(State)
      .addNode("sub", inside as never)
      .addNode("z", note("z"))
      .addEdge(START, "sub")
      .addEdge("sub", "z")
      .compile({ checkpointer });
  const called = line(undefined);
  const inside = {
    nested: () => line(undefined),
    "two deep": () => around(line(undefined)),
    kept: () => line(true),
    called: () => async () => ({ log: ((await called.invoke({ log: [] })) as { log: string[] }).log }),
  };
  return place === "own" ? line(saver) : around(inside[place](), saver);
}

const stops: Shape["stop"][] = [{ interruptBefore: ["y"] }, { interruptAfter: ["x"] }, { interruptBefore: "*" }];
const shapes = pairs(["own", "nested", "two deep", "kept", "called"] as const, stops).map(([place, stop]): [string, Shape] => [
  `${place}, ${JSON.stringify(stop)}`,
  { place, stop },
]);

const codeOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => "ran",
    (error: { code?: unknown }) => error.code,
  );

/** Runs the graph to its breakpoint before `y`. */
async function stopped(shape: Shape, turns: "full" | "off", path = ":memory:") {
  const ran: string[] = [];
  const saver = openSaver(path, { logger: quiet, turns });
  const runner = new GraphRunner(graphOf(saver, shape, (node) => void ran.push(node)));
  await runner.invoke({ log: [] }, { threadId: "t" });
  for (let tries = 0; !ran.includes("x"); tries += 1) {
    expect(tries).toBeLessThan(4);
    await runner.resume({ threadId: "t" });
  }
  expect(ran).toEqual(["x"]);
  return { saver, runner, ran };
}

/** What the thread's log contains at its end. */
const ends = ({ place }: Shape, answer: string, ...more: string[]): string[] =>
  [...more, "x", `y: ${answer}`, ...{ own: [], nested: ["z"], kept: ["z"], called: ["z"], "two deep": ["z", "z"] }[place]].sort();

/** A person continues, and answers the question. Gives the log; it is empty if nothing was saved that could be continued. */
async function toTheEnd(runner: GraphRunner<ReturnType<typeof graphOf>>): Promise<string[]> {
  for (let tries = 0; tries < 8; tries += 1) {
    const { waiting, finished, reason } = await runner.status("t");
    if (finished || reason?.code === "NOTHING_TO_RESUME") break;
    const command = new Command({ resume: Object.fromEntries(waiting.map(({ id = "" }) => [id, "yes"])) });
    await runner.resume({ threadId: "t", ...(waiting.length > 0 && { command }) });
  }
  const { values } = (await runner.graph.getState({ configurable: { thread_id: "t" } })) as { values: { log?: string[] } };
  return (values.log ?? []).sort();
}

describe.each(["full", "off"] as const)("turns: %s", (turns) => {
  const known = shapes.filter(([, { place }]) => turns === "full" || place !== "called");

  test.each(known)(
    "S2.5 new input isn't taken by a thread that stands at a breakpoint, and nothing continues: %s",
    async (_, shape) => {
      const { saver, runner, ran } = await stopped(shape, turns);
      for (const onUnfinished of ["refuse", "finish"] as const) {
        const refused = runner.invoke({ log: ["new"] }, { threadId: "t", onUnfinished });
        await expect(refused).rejects.toMatchObject({ code: "UNFINISHED_WORK", data: { waits: true } });
        await expect(refused).rejects.toThrow("stands at a breakpoint");
      }
      expect(ran).toEqual(["x"]);
      await (saver.close() as unknown);
    },
  );

  test.each(known)(
    "S4.1 an answer at a breakpoint means to continue, and answers no question that comes later: %s",
    async (_, shape) => {
      const { saver, runner, ran } = await stopped(shape, turns);
      const command = new Command({ resume: true, update: { log: ["seen"] } });
      // An answer with an id is for a question, and there is none.
      const byId = new Command({ resume: { ["1".repeat(32)]: true } });
      expect(await codeOf(runner.resume({ threadId: "t", command: byId }))).toBe("UNKNOWN_INTERRUPT");
      for (let tries = 0; !ran.includes("y"); tries += 1) {
        expect(tries).toBeLessThan(4);
        await runner.resume({ threadId: "t", command: tries === 0 ? command : new Command({ resume: true }) });
      }
      const [question] = (await runner.status("t")).waiting;
      expect(question?.value).toBe("deploy?");
      expect(await toTheEnd(runner)).toEqual(ends(shape, "yes", "seen"));
      await (saver.close() as unknown);
    },
  );
});

/** The database files as a kill leaves them after each commit of some work. */
async function imagesOf(path: string, work: () => Promise<unknown>): Promise<string[]> {
  const images: string[] = [];
  setFailpointHandler((point) => {
    if (!point.endsWith(".after")) return;
    const image = `${path}.${images.length}`;
    for (const part of ["", "-wal"]) if (existsSync(path + part)) copyFileSync(path + part, image + part);
    images.push(image);
  });
  await work().finally(() => setFailpointHandler(undefined));
  return images;
}

test("S2.5 work that is finished for new input stops at the next breakpoint, and the input isn't taken", async () => {
  for (const [, shape] of shapes.filter(([, { stop }]) => stop.interruptBefore !== "*")) {
    const saver = openSaver(":memory:", { logger: quiet });
    let fails = true;
    const ran: string[] = [];
    const body = (node: string): void => {
      if (fails) throw new Error("out of paper");
      ran.push(node);
    };
    const runner = new GraphRunner(graphOf(saver, shape, body));
    await expect(runner.invoke({ log: [] }, { threadId: "t" })).rejects.toThrow("out of paper");
    fails = false;
    for (const _ of [1, 2])
      await expect(runner.invoke({ log: ["new"] }, { threadId: "t", onUnfinished: "finish" })).rejects.toThrow("at a breakpoint");
    expect(ran).toEqual(["x"]);
    expect(await toTheEnd(runner)).toEqual(ends(shape, "yes"));
    await (saver.close() as unknown);
  }
});

describe("S9.4 property: recovery never passes a breakpoint, no matter at which commit the process died", () => {
  // Only the turn of its node tells that a graph stopped which a body calls, and a kill may come before that.
  const known = shapes.filter(([, { place }]) => place !== "called");

  testOfFiles.each(known.flatMap(([name, shape]) => (["full", "off"] as const).map((turns) => [name, turns, shape] as const)))(
    "S9.4 %s, turns: %s",
    async (_, turns, shape) => {
      const path = tempFile();
      const images = await imagesOf(path, async () => (await stopped(shape, turns, path)).saver.close());
      expect(images.length).toBeGreaterThan(2);
      for (const image of images) {
        const ran: string[] = [];
        const again = openSaver(image, { logger: quiet, turns });
        const { store } = internalsOf(again);
        const runner = new GraphRunner(graphOf(again, shape, (node) => void ran.push(node)));
        for (let looks = 0; looks < 3; looks += 1) {
          await store.beatRuns(
            (await store.allRuns("", 10)).map(({ runId }) => runId),
            -1,
          );
          await runner.recover();
        }
        expect([image, ran]).toEqual([image, ran.filter((node) => node === "x")]);
        const log = await toTheEnd(runner);
        expect([image, log]).toEqual([image, log.length === 0 ? [] : ends(shape, "yes")]);
        again.close();
      }
    },
  );
});

describe("S9.4 property: a run that somebody continued from a breakpoint is recovered, no matter at which commit its process died", () => {
  const cases = shapes.flatMap(([name, shape]) => (["full", "off"] as const).map((turns) => [name, turns, shape] as const));
  testOfFiles.each(cases.filter(([, turns, { place }]) => turns === "full" || place !== "called"))(
    "S9.4 once the approval is saved: %s, turns: %s",
    async (_, turns, shape) => {
      const path = tempFile();
      const { saver, runner } = await stopped(shape, turns, path);
      // Up to the question of `y`, with the last approval.
      const images = await imagesOf(path, async () => {
        for (let tries = 0; (await runner.status("t")).waiting.length === 0; tries += 1) {
          expect(tries).toBeLessThan(4);
          await runner.resume({ threadId: "t" });
        }
      });
      saver.close();
      let recovered = 0;
      for (const image of images) {
        const again = openSaver(image, { logger: quiet, turns });
        const { store } = internalsOf(again);
        const recovering = new GraphRunner(graphOf(again, shape));
        await store.beatRuns(
          (await store.allRuns("", 10)).map(({ runId }) => runId),
          -1,
        );
        const isApproved = ((await internalsOf(again).lastRun("t"))?.answers.size ?? 0) > 0;
        await recovering.recover();
        const { waiting } = await recovering.status("t");
        // With "*" there are other breakpoints behind this one.
        if (isApproved && shape.stop.interruptBefore !== "*") {
          expect([image, waiting]).toMatchObject([image, [{ value: "deploy?" }]]);
          recovered += 1;
        }
        again.close();
      }
      if (shape.stop.interruptBefore !== "*") expect(recovered).toBeGreaterThan(turns === "full" ? 2 : 1);
    },
  );
});

test("S4.1 after a breakpoint's graph failed, a second yes doesn't answer a question that nobody was shown", async () => {
  const saver = openSaver(":memory:", { logger: quiet });
  let fails = true;
  const graph = new StateGraph(State)
    .addNode("a", () => ({ log: [`a: ${interrupt("delete staging?")}`] }))
    .addNode("b", () => {
      if (fails) throw new Error("out of paper");
      return { log: [`b: ${interrupt("delete production?")}`] };
    })
    .addNode("c", () => ({ log: ["c"] }))
    .addEdge(START, "a")
    .addEdge("a", "b")
    .addEdge("b", "c")
    .compile({ checkpointer: saver, interruptBefore: ["c"] });
  const runner = new GraphRunner(graph);
  await runner.invoke({ log: [] }, { threadId: "t" });
  const [{ id = "" } = {}] = (await runner.status("t")).waiting;
  const yes = { threadId: "t", command: new Command({ resume: { [id]: "yes" } }) };
  expect(await codeOf(runner.resume(yes))).toBeUndefined();
  fails = false;
  for (const again of [yes, { threadId: "t", command: new Command({ resume: "yes" }) }]) {
    expect(await codeOf(runner.resume(again))).toBe("UNKNOWN_INTERRUPT");
  }
  await runner.resume({ threadId: "t" });
  const [{ id: next = "", value } = {}] = (await runner.status("t")).waiting;
  expect(value).toBe("delete production?");
  await runner.resume({ threadId: "t", command: new Command({ resume: { [next]: "no" } }) });
  // At the breakpoint, too, an answer to a question is none to continue.
  expect(await codeOf(runner.resume(yes))).toBe("UNKNOWN_INTERRUPT");
  expect(await runner.resume({ threadId: "t" })).toMatchObject({ log: ["a: yes", "b: no", "c"] });
  await (saver.close() as unknown);
});
