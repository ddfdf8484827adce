import * as checkpoint from "@langchain/langgraph-checkpoint";
import { Annotation, Command, DeltaChannel, END, interrupt, Send, START, StateGraph } from "@langchain/langgraph";
import fc from "fast-check";
import { collect, inOrderOfQuestions, type Variant, type Lab, thread } from "../support/diff-harness";

const KINDS = ["plain", "plain", "asks", "fails once", "in place", "sends", "subgraph"] as const;
type Kind = (typeof KINDS)[number];

/** Of these a graph has one at most: conditional edges have one name, and a second failure would be aborted by the first. */
const ONCE: readonly Kind[] = ["fails once", "sends"];

/** Whether this LangGraph is one of the newer ones, which have one comparator for the order of writes. */
const IS_NEWER = "compareWritesSortKeys" in checkpoint;

/** What somebody does to a thread that stopped: edit it in one of these ways, as one of its nodes. */
const HOWS = [
  "update",
  "bulk",
  "two steps",
  "clear",
  "two at once",
  "at the head's id",
  "in the subgraph",
  "input",
  "copy",
] as const;
/**
 * On 1.4.17 two updates at once have one task id, and a MemorySaver keeps the writes of the first, we of the last. The edits behind it
 * leave pending writes out, but a MemorySaver puts them into delta channels all the same when it reads again, and so contradicts its own
 * other channels. In both we differ on purpose.
 */
const DIFFERENT_BEFORE: readonly string[] = HOWS.slice(4);
const COMPARED = HOWS.filter((how) => IS_NEWER || !DIFFERENT_BEFORE.includes(how));
/** With "exit" LangGraph 1.4.17 saves checkpoints as their own parents, and a MemorySaver keeps them so; we keep the real parent. */
export const DURABILITIES: readonly RepairPlan["durability"][] = IS_NEWER ? ["async", "sync", "exit"] : ["async", "sync"];
/** What an edit writes. */
const FIELDS = ["log", "delta", "box", "late", "nothing"] as const;

export interface RepairPlan {
  /** Tasks of one superstep. */
  tasks: readonly Kind[];
  /** Whether the node behind them waits for all, or is triggered by any. */
  joined: boolean;
  durability: "async" | "sync" | "exit";
  repairs: readonly Repair[];
}

export interface Repair {
  how: (typeof HOWS)[number];
  /** As which of the nodes; undefined leaves it to LangGraph. */
  as: number | undefined;
  field: (typeof FIELDS)[number];
  /** What comes next: another repair, a resume, or the answers to all questions. */
  then: "repair" | "resume" | "answer";
}

/** @param answersLate then a change in place comes later than a subgraph's first checkpoint, or sooner, and nobody promises which */
export const repairPlans = (durability: RepairPlan["durability"], answersLate: boolean): fc.Arbitrary<RepairPlan> =>
  fc.record({
    tasks: fc
      .array(fc.constantFrom(...KINDS), { minLength: 2, maxLength: 4 })
      .map((kinds) => kinds.map((kind, at) => (ONCE.includes(kind) && kinds.indexOf(kind) < at ? "plain" : kind)))
      .map((kinds) => kinds.map((kind) => (answersLate && kind === "in place" && kinds.includes("subgraph") ? "plain" : kind))),
    joined: fc.boolean(),
    durability: fc.constant(durability),
    repairs: fc.array(
      fc.record({
        how: fc.oneof({ weight: 2, arbitrary: fc.constant("update" as const) }, fc.constantFrom(...COMPARED)),
        as: fc.option(fc.nat({ max: 4 }), { nil: undefined, freq: 6 }),
        field: fc.constantFrom(...FIELDS),
        then: fc.constantFrom("repair", "resume", "answer"),
      }),
      { minLength: 1, maxLength: 3 },
    ),
  });

const list = () => Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] });
// Sorted: LangGraph 1.4.17 applies parallel writes by task ids, which are other ones in every run.
const delta = (): any =>
  new DeltaChannel<string[], string[]>((state, writes) => state.concat(...writes).toSorted(), { initialValueFactory: () => [] });
const State: any = Annotation.Root({
  log: list(),
  delta,
  box: Annotation<Record<string, unknown>>({ reducer: (left, right) => ({ ...left, ...right }), default: () => ({}) }),
  /** Nobody writes it before a repair does. */
  late: list(),
} as any);
const both = (item: string): any => ({ log: [item], delta: [item] });
const nameOf = (index: number): string => `n${index}`;

/**
 * What LangGraph has asked a saver for. An engine may answer late, and LangGraph hands in a checkpoint only when the one before is saved,
 * while the nodes of a graph that isn't attached run on.
 */
class Requests {
  readonly #handedIn = new Set<string>();
  #underWay = 0;

  constructor(saver: any) {
    const { put } = saver;
    saver.put = (...args: any[]) => {
      this.#handedIn.add(args[1].id);
      return put.apply(saver, args);
    };
    for (const name of ["put", "putWrites", "getTuple"]) {
      const method = saver[name];
      saver[name] = async (...args: any[]) => {
        this.#underWay += 1;
        return method.apply(saver, args).finally(() => (this.#underWay -= 1));
      };
    }
  }

  /** Whether a checkpoint has been handed in, and so can't be changed by a body any more. */
  has(checkpointId: string): boolean {
    return this.#handedIn.has(checkpointId);
  }

  /** When nothing has been under way for a moment. */
  async calm(): Promise<void> {
    for (let calm = 0; calm < 8; calm = this.#underWay === 0 ? calm + 1 : 0) {
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
  }
}

/** Bodies that have begun, and how many come to their end or their question before a failure may abort what is left. */
class Bodies {
  readonly ran: string[] = [];
  #over = 0;
  readonly #siblings: number;
  readonly #requests: Requests;
  /** With durability "exit" no checkpoint is saved before the run ends. */
  readonly #isSavedBefore: boolean;

  constructor({ tasks, durability }: RepairPlan, requests: Requests) {
    this.#requests = requests;
    this.#isSavedBefore = durability !== "exit";
    const counts = { plain: 1, asks: 1, "in place": 1, sends: 3, subgraph: 2, "fails once": 0 };
    this.#siblings = tasks.reduce((total, kind) => total + counts[kind], 0);
  }

  ends(name: string): void {
    this.ran.push(name);
    this.#over += 1;
  }

  /** Does something that changes a checkpoint's values in place, but not before the checkpoint has been handed in. */
  async changes(config: any, change: () => void): Promise<void> {
    const checkpointId = config.configurable.checkpoint_map[""];
    while (this.#isSavedBefore && !this.#requests.has(checkpointId)) await new Promise((resolve) => setTimeout(resolve, 1));
    change();
  }

  /** Waits for all siblings, and for what they save. */
  async fails(name: string): Promise<void> {
    this.ran.push(name);
    while (this.#over < this.#siblings) await new Promise((resolve) => setTimeout(resolve, 1));
    await this.#requests.calm();
  }
}

/** On 1.4.17 finished siblings inside a subgraph run again on a resume; `attach` repairs that, so that it differs on purpose. */
export function variantsFor({ tasks }: RepairPlan): readonly Variant[] {
  return IS_NEWER || !tasks.includes("subgraph") ? ["turns", "attached"] : ["turns"];
}

/** Runs the graph until it stops with tasks pending, repairs it, and goes on to its end; notes all that can be seen on the way. */
export async function runRepairs(lab: Lab, plan: RepairPlan): Promise<void> {
  const bodies = new Bodies(plan, new Requests(lab.saver));
  const graph = lab.compile(build(plan, bodies));
  const config = { ...thread(), durability: plan.durability };
  await step(lab, graph, "input", () => graph.invoke({ ...both("in"), box: { given: "x".repeat(200) } }, config));
  for (const repair of plan.repairs) {
    await step(lab, graph, `repair: ${repair.how}`, () => applied(graph, plan, repair));
    if (repair.then === "repair") continue;
    const next = repair.then === "answer" ? await answers(graph) : null;
    await step(lab, graph, repair.then, () => graph.invoke(next, config));
  }
  for (let round = 0; round < 4; round++) {
    const state = await graph.getState(thread());
    if (state.next.length === 0) break;
    const next = await answers(graph);
    await step(lab, graph, "finish", () => graph.invoke(next, config));
  }
  // How bodies of one superstep interleave is promised by nobody.
  lab.note("bodies that ran", bodies.ran.toSorted());
}

async function applied(graph: any, plan: RepairPlan, { how, as, field }: Repair): Promise<void> {
  const nodes = [...plan.tasks.map((kind, index) => (kind === "sends" ? "worker" : nameOf(index))), "end"];
  const node = as === undefined ? undefined : nodes[as % nodes.length];
  const values = valuesOf(field, "by hand");
  const update = (asNode: string | undefined = node): any => ({ values, asNode });
  const head = await graph.getState(thread(), { subgraphs: true });
  if (how === "update") return graph.updateState(thread(), values, node);
  if (how === "bulk") return graph.bulkUpdateState(thread(), [{ updates: [update()] }]);
  if (how === "two steps") return graph.bulkUpdateState(thread(), [{ updates: [update()] }, { updates: [update("end")] }]);
  if (how === "two at once") return graph.bulkUpdateState(thread(), [{ updates: [update(node ?? "end"), update("n0")] }]);
  if (how === "clear") return graph.updateState(thread(), null, END);
  if (how === "input") return graph.updateState(thread(), values, "__input__");
  if (how === "copy") return graph.updateState(thread(), null, "__copy__");
  if (how === "at the head's id") return graph.updateState(head.config, values, node);
  const inner = head.tasks.find((task: any) => task.state?.config !== undefined);
  if (inner !== undefined) await graph.updateState(inner.state.config, values, "ask");
}

function valuesOf(field: Repair["field"], item: string): any {
  if (field === "nothing") return {};
  return field === "box" ? { box: { [item]: true } } : { [field]: [item] };
}

async function answers(graph: any): Promise<unknown> {
  const state = await graph.getState(thread());
  const questions = state.tasks.flatMap((task: any) => task.interrupts);
  if (questions.length === 0) return null;
  return new Command({ resume: Object.fromEntries(questions.map((question: any) => [question.id, "answer"])) });
}

async function step(lab: Lab, graph: any, what: string, work: () => Promise<unknown>): Promise<void> {
  await noted(lab, what, async () => inOrderOfQuestions(await work()));
  await noted(lab, "state", () => graph.getState(thread(), { subgraphs: true }));
  await noted(lab, "history", () => collect(graph.getStateHistory(thread())));
  await noted(lab, "list", () => lab.list());
}

/** An error is a result like any other. */
async function noted(lab: Lab, what: string, work: () => Promise<unknown>): Promise<void> {
  try {
    lab.note(what, await work());
  } catch (error) {
    lab.note(what, { threw: error });
  }
}

function build({ tasks, joined }: RepairPlan, bodies: Bodies): any {
  const builder: any = new StateGraph(State);
  const names: string[] = [];
  if (tasks.includes("sends")) {
    builder.addNode("worker", (packet: any) => {
      bodies.ends(`worker ${packet.from} ${packet.index}`);
      return both(`worker:${packet.from}:${packet.index === 2 ? interrupt(`${packet.from} asks`) : packet.index}`);
    });
    names.push("worker");
  }
  for (const [index, kind] of tasks.entries()) {
    if (kind === "sends") {
      const packets = [1, 2, 3].map((each) => new Send("worker", { from: nameOf(index), index: each }));
      builder.addConditionalEdges(START, () => packets, ["worker"]);
      continue;
    }
    const name = nameOf(index);
    names.push(name);
    builder.addNode(name, bodyOf(kind, name, bodies));
    builder.addEdge(START, name);
  }
  builder.addNode("end", (state: any) => {
    bodies.ends("end");
    return both(
      `end saw ${state.log.length} ${state.delta.length} ${Object.keys(state.box).toSorted().join()} ${state.late.join()}`,
    );
  });
  if (joined && names.length > 1) builder.addEdge(names, "end");
  else for (const name of names) builder.addEdge(name, "end");
  return builder;
}

function bodyOf(kind: Exclude<Kind, "sends">, name: string, bodies: Bodies): any {
  let failed = false;
  switch (kind) {
    case "plain":
      return () => {
        bodies.ends(name);
        return both(name);
      };
    case "in place":
      return async (state: any, config: any) => {
        await bodies.changes(config, () => (state.box[`changed by ${name}`] = true));
        bodies.ends(name);
        return { log: [name] };
      };
    case "asks":
      return () => {
        bodies.ends(name);
        return both(`${name}:${interrupt(name)}`);
      };
    case "fails once":
      return async () => {
        if (failed) return both(name);
        failed = true;
        await bodies.fails(name);
        throw new Error(`${name} failed`);
      };
    case "subgraph":
      return (new StateGraph(State) as any)
        .addNode("before", () => ({ log: [`${name}/before`] }))
        .addNode("beside", () => {
          bodies.ends(`${name}/beside`);
          return both(`${name}/beside`);
        })
        .addNode("ask", () => {
          bodies.ends(`${name}/ask`);
          return both(`${name}/${interrupt(name)}`);
        })
        .addEdge(START, "before")
        .addEdge("before", "beside")
        .addEdge("before", "ask")
        .compile();
  }
}
