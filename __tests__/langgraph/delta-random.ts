import { Annotation, Command, DeltaChannel, interrupt, Overwrite, Send, START, StateGraph } from "@langchain/langgraph";
import fc from "fast-check";
import { collect, thread } from "../support/diff-harness";

/** Texts that sort otherwise by UTF-16 unit than by code point, and otherwise by position than by number. */
const NAMES = ["a", "b", "Z", "n10", "n9", "🦜", "\uffee", "ü", "a b", "~"];
const KINDS = ["plain", "plain", "twice", "silent", "sends", "subgraph", "asks", "fails once", "overwrites"] as const;
type Kind = (typeof KINDS)[number];

interface RandomNode {
  kind: Kind;
  /** After how many rounds of the event loop it returns, so that tasks end in every order. */
  rounds: number;
}
export interface RandomGraph {
  layers: readonly (readonly RandomNode[])[];
  names: readonly string[];
  joined: boolean;
  snapshotFrequency: number;
}

/** A graph of layers of parallel nodes, each of which writes the same to an ordinary channel and to a delta channel. */
export const graphs = (kinds: readonly Kind[] = KINDS): fc.Arbitrary<RandomGraph> =>
  fc.record({
    layers: fc.array(
      fc.array(fc.record({ kind: fc.constantFrom(...kinds), rounds: fc.nat({ max: 4 }) }), { minLength: 1, maxLength: 4 }),
      { minLength: 1, maxLength: 3 },
    ),
    names: fc.shuffledSubarray(NAMES, { minLength: 4, maxLength: 4 }),
    joined: fc.boolean(),
    snapshotFrequency: fc.constantFrom(1000, 1000, 3, 2, 1),
  });

/** Without questions, failures and overwritten values: what is applied is what the run applied, at once. */
export const PARALLEL = ["plain", "plain", "twice", "silent", "sends", "subgraph"] as const;

/** Without overwritten values: which of a checkpoint's writes an edit took can't be told from a MemorySaver then. */
export const EDITED = KINDS.filter((kind) => kind !== "overwrites");

const DURABILITY = ["async", "async", "sync", "exit"] as const;
export type Step = { durability: (typeof DURABILITY)[number]; back: number } & {
  do: "input" | "command" | "update" | "update as input" | "replay" | "edit" | "input at";
};
export const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.record({
    do: fc.constantFrom("input", "input", "command", "update", "update as input", "replay", "edit", "input at"),
    durability: fc.constantFrom(...DURABILITY),
    back: fc.nat({ max: 8 }),
  }),
  { minLength: 1, maxLength: 4 },
);

const EDITS = [
  "input",
  "command",
  "update",
  "two steps",
  "two at once",
  "update at",
  "update as input",
  "clear",
  "copy",
] as const;
/** What somebody does to a thread, whatever is pending on it, and what is run then. */
export interface Edit {
  do: (typeof EDITS)[number];
  durability: (typeof DURABILITY)[number];
  back: number;
  then: "nothing" | "resume" | "answer" | "finish";
}
export const edits: fc.Arbitrary<Edit[]> = fc.array(
  fc.record({
    do: fc.constantFrom(...EDITS),
    durability: fc.constantFrom("async", "sync", "exit", "exit"),
    back: fc.nat({ max: 8 }),
    then: fc.constantFrom("nothing", "resume", "answer", "finish"),
  }),
  { minLength: 2, maxLength: 5 },
);

export const both = (...items: string[]): any => ({ log: items, delta: items });
export const append = (state: string[], writes: string[][]): string[] => state.concat(...writes);

function stateOf(snapshotFrequency: number): any {
  return Annotation.Root({
    log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
    delta: () => new DeltaChannel<string[], string[]>(append, { snapshotFrequency, initialValueFactory: () => [] }),
  } as any);
}

export function build({ layers, names, joined, snapshotFrequency }: RandomGraph): any {
  const State = stateOf(snapshotFrequency);
  const builder: any = new StateGraph(State);
  const nameOf = (layer: number, index: number): string => `${names[index]}${layer}`;
  if (layers.flat().some(({ kind }) => kind === "sends")) {
    builder.addNode("worker", async ({ from, item, rounds }: any) => (await turns(rounds), both(`worker:${from}:${item}`)));
  }
  for (const [layer, nodes] of layers.entries()) {
    const before = layer === 0 ? [] : (layers[layer - 1] ?? []).map((_, index) => nameOf(layer - 1, index));
    for (const [index, { kind: drawn, rounds }] of nodes.entries()) {
      const name = nameOf(layer, index);
      // LangGraph takes one Overwrite per step.
      const kind = drawn === "overwrites" && nodes.length > 1 ? "plain" : drawn;
      builder.addNode(name, bodyOf(kind, name, rounds, State));
      if (kind === "sends") {
        const packets = Array.from({ length: 4 }, (_, item) => ({ from: name, item, rounds: (item * 7) % 3 }));
        builder.addConditionalEdges(name, () => packets.map((packet) => new Send("worker", packet)), ["worker"]);
      }
      if (layer === 0) builder.addEdge(START, name);
      else if (joined && before.length > 1) builder.addEdge(before, name);
      else for (const each of before) builder.addEdge(each, name);
    }
  }
  return builder;
}

function bodyOf(kind: Kind, name: string, rounds: number, State: any): any {
  let failed = false;
  switch (kind) {
    case "plain":
    case "sends":
      return async () => (await turns(rounds), both(name));
    case "twice":
      return async () => (await turns(rounds), [both(`${name}/1`), new Command({ update: both(`${name}/2`, `${name}/3`) })]);
    case "silent":
      return () => ({});
    case "asks":
      return () => both(`${name}:${interrupt(name)}`);
    case "overwrites":
      return async ({ log }: any) => {
        await turns(rounds);
        return { delta: new Overwrite([...log, name]), log: [name] };
      };
    case "fails once":
      return async () => {
        await turns(12);
        if (failed) return both(name);
        failed = true;
        throw new Error(`${name} failed`);
      };
    case "subgraph":
      return new StateGraph(State)
        .addNode("s2", async () => (await turns(rounds), both(`${name}/s2`)))
        .addNode("s1", () => both(`${name}/s1`))
        .addNode("z", () => both(`${name}/z`))
        .addEdge(START, "s1")
        .addEdge(START, "s2")
        .addEdge(["s1", "s2"], "z")
        .compile();
  }
}

async function turns(rounds: number): Promise<void> {
  for (let round = 0; round < rounds; round += 1) await new Promise((resolve) => setImmediate(resolve));
}

/** Answers all questions and repeats what failed, until nothing is left to run. */
export async function finish(graph: any, durability: string): Promise<void> {
  for (let round = 0; round < 12; round += 1) if (!(await answer(graph, durability, round))) return;
}

/** @returns false if nothing is left to run */
async function answer(graph: any, durability: string, round: number): Promise<boolean> {
  const { next, tasks } = await graph.getState(thread());
  if (next.length === 0) return false;
  const questions = tasks.flatMap((task: any) => task.interrupts);
  const answers = Object.fromEntries(questions.map((question: any) => [question.id, `answer ${round}`]));
  await settled(graph.invoke(questions.length > 0 ? new Command({ resume: answers }) : null, { ...thread(), durability }));
  return true;
}

/** Runs one step of a program on a thread that may be in any state. What LangGraph refuses is left out. */
export async function take(graph: any, { do: what, durability, back }: Step, n: number): Promise<void> {
  const config = { ...thread(), durability };
  const past = await pastOf(graph, back);
  const at = past && { ...past, durability };
  const node = Object.keys(graph.nodes).find((name) => name !== "__start__");
  switch (what) {
    case "input":
      return settled(graph.invoke(both(`in${n}`), config));
    case "command":
      return settled(graph.invoke(new Command({ update: both(`command${n}`), goto: node }), config));
    case "update":
      return settled(graph.updateState(thread(), both(`update${n}`), node));
    case "update as input":
      return settled(graph.updateState(thread(), both(`input update${n}`), "__input__"));
    case "replay":
      return at && settled(graph.invoke(null, at));
    case "edit":
      return at && settled(graph.updateState(past, both(`edit${n}`), node).then((to: any) => graph.invoke(null, to)));
    case "input at":
      return at && settled(graph.invoke(both(`in${n} at`), at));
  }
}

/** Makes one edit on a thread that may be in any state. What LangGraph refuses is left out. */
export async function edit(graph: any, { do: what, durability, back, then }: Edit, n: number): Promise<void> {
  const config = { ...thread(), durability };
  const past = what === "update at" ? await pastOf(graph, back) : undefined;
  const nodes = Object.keys(graph.nodes).filter((name) => name !== "__start__" && name !== "worker");
  const asNode = nodes[back % nodes.length] as string;
  const one = (item: string, taskId?: string): object => ({ values: both(`${item}${n}`), asNode, taskId });
  const taskIds = ["a", "b"].map((digit) => `${digit.repeat(8)}-0000-4000-8000-${String(n).padStart(12, "0")}`);
  const bulk = (...steps: object[][]): Promise<void> =>
    settled(
      graph.bulkUpdateState(
        thread(),
        steps.map((updates) => ({ updates })),
      ),
    );
  if (what === "input") await settled(graph.invoke(both(`in${n}`), config));
  // With "exit" LangGraph itself loses the delta writes of a Command whose run stops where it began.
  const ofCommand = { ...config, durability: durability === "exit" ? "sync" : durability };
  if (what === "command") await settled(graph.invoke(new Command({ update: both(`command${n}`) }), ofCommand));
  if (what === "update") await bulk([one("update")]);
  if (what === "two steps") await bulk([one("first")], [one("second")]);
  if (what === "two at once") await bulk([one("one", taskIds[0]), one("other", taskIds[1])]);
  if (what === "update at" && past) await settled(graph.updateState(past, both(`edit${n}`), asNode));
  if (what === "update as input") await settled(graph.updateState(thread(), both(`input update${n}`), "__input__"));
  if (what === "clear") await settled(graph.updateState(thread(), null, "__end__"));
  if (what === "copy") await settled(graph.updateState(thread(), null, "__copy__"));
  if (then === "resume") await settled(graph.invoke(null, config));
  if (then === "answer") await answer(graph, durability, n);
  if (then === "finish") await finish(graph, durability);
}

async function pastOf(graph: any, back: number): Promise<any> {
  const history: any[] = await collect(graph.getStateHistory(thread()));
  return history[back % Math.max(history.length, 1)]?.config;
}

async function settled(work: Promise<unknown>): Promise<void> {
  await work.catch(() => undefined);
}
