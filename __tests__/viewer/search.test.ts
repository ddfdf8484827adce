import { Annotation, END, entrypoint, START, StateGraph } from "@langchain/langgraph";
import { TurnSaver } from "langgraph-checkpoint-turns";
import { blameOf, branchesOf, type Match, search, showTurn, stateAt } from "../../src/testing-internal";
import { tempFile } from "../support/temp";

const State = Annotation.Root({ note: Annotation<string>(), large: Annotation<unknown>() });

test("S10.2 a text that was told is left out by a search only if nothing else in it matches", async () => {
  const saver = TurnSaver.fromPath(tempFile());
  const config = { configurable: { thread_id: "t" } };
  const graph = new StateGraph(State)
    .addNode("one", () => ({ note: "error A" }))
    .addEdge(START, "one")
    .addEdge("one", END)
    .compile({ checkpointer: saver });
  saver.attach(graph);
  await graph.invoke({ note: "start" }, config);
  const hits = async (pattern: RegExp): Promise<string[]> => {
    const found: string[] = [];
    const searching = search(saver, { pattern });
    for (let step = await searching.next(); step.done !== true; step = await searching.next())
      found.push(`${step.value.kind} ${/error B/.test(step.value.excerpt) ? "B" : "A"}`);
    return found;
  };
  expect(await hits(/error/)).toEqual(["turn A"]);
  await graph.updateState(config, { large: { pad: "p".repeat(2_000), a: "error A", b: "error B is only here" } });
  for (const pattern of [/error/, /error [AB]/, /error/g]) expect(await hits(pattern)).toEqual(["turn A", "write B"]);
  saver.close();
});

test("S10.1 a number that a command prints is one that other commands take", async () => {
  const saver = TurnSaver.fromPath(tempFile());
  const config = { configurable: { thread_id: "t" } };
  const graph = new StateGraph(State)
    .addNode("one", () => ({ note: "first" }))
    .addNode("two", () => ({ large: "second" }))
    .addNode("last", () => ({ note: "third" }))
    .addEdge(START, "one")
    .addEdge(START, "two")
    .addEdge(["one", "two"], "last")
    .addEdge("last", END)
    .compile({ checkpointer: saver });
  saver.attach(graph);
  await graph.invoke({ note: "start" }, config);
  await graph.updateState(config, { note: "by hand" });
  await graph.invoke({ note: "again" }, config);
  const matches: Match[] = [];
  for await (const match of search(saver, { pattern: /./ })) matches.push(match);
  const { checkpoints } = await branchesOf(saver, "t");
  const { changes } = await blameOf(saver, "t", "note");
  for (const { number } of checkpoints) expect((await stateAt(saver, "t", `#${number}`)).checkpoint.number).toBe(number);
  for (const { number } of [...matches, ...changes]) await stateAt(saver, "t", String(number));
  const ofTurns = matches.filter(({ near }) => near !== "input");
  expect(ofTurns.length).toBeGreaterThan(8);
  for (const { number, near } of ofTurns) expect((await showTurn(saver, "t", String(number))).node).toBe(near);
  const missing = checkpoints[0]?.number ?? 0;
  await expect(showTurn(saver, "t", String(missing))).rejects.toMatchObject({
    code: "CHECKPOINT_NOT_FOUND",
    message: expect.stringMatching(/The turn before it is #\d+\. turns log t lists/),
  });
  await expect(stateAt(saver, "t", "1000")).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
  saver.close();
});

test("S10.1 the state of a functional graph is what it returned", async () => {
  const saver = TurnSaver.fromPath(tempFile());
  const flow = entrypoint({ name: "flow", checkpointer: saver }, (input: number) => Promise.resolve({ twice: 2 * input }));
  await flow.invoke(4, { configurable: { thread_id: "t" } });
  expect((await stateAt(saver, "t")).state).toEqual({ __end__: { twice: 8 } });
  saver.close();
});
