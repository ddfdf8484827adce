import { isDeepStrictEqual } from "node:util";
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import { MemorySaver } from "@langchain/langgraph";
import type { TurnSaver } from "langgraph-checkpoint-turns";
import { normalised, sortKey } from "./diff-normalise";
import { anyEngine, type Engine } from "./engines";

/** What a graph runs with: LangGraph's own saver, ours, or ours and attached to it. */
export type Variant = "memory" | "turns" | "attached";

/** Nodes side by side ask in the order in which they get there, which is nobody's promise. */
export function inOrderOfQuestions(result: any): any {
  if (!Array.isArray(result?.__interrupt__)) return result;
  const asked = result.__interrupt__.toSorted((left: unknown, right: unknown) => (sortKey(left) < sortKey(right) ? -1 : 1));
  return { ...result, __interrupt__: asked };
}

/** How a scenario's runs are made: what they return is part of what is compared. */
export const MODES = ["invoke", "stream", "stream with subgraphs", "streamEvents"] as const;
export type Mode = (typeof MODES)[number];

export const STREAM_MODES = ["values", "updates", "messages", "custom", "tasks", "checkpoints", "debug"] as const;
export const quiet = { debug() {}, info() {}, warn() {}, error() {} };

export interface Note {
  what: string;
  value: unknown;
}
export type Scenario = (lab: Lab) => Promise<void>;

/** One saver, and notes of all that can be seen of the graphs that run on it. */
export class Lab {
  readonly notes: Note[] = [];
  readonly saver: BaseCheckpointSaver;
  #lists = true;
  #oldResults = true;

  constructor(
    readonly variant: Variant,
    readonly mode: Mode,
    engine: Engine = anyEngine,
  ) {
    this.saver = variant === "memory" ? new MemorySaver() : engine.open({ logger: quiet });
  }

  get isOurs(): boolean {
    return this.variant !== "memory";
  }

  /** Compiles with the saver, and attaches it where that is what is tested. */
  compile(builder: any, options: object = {}): any {
    return this.attached(builder.compile({ checkpointer: this.saver, ...options }));
  }

  attached<G extends object>(graph: G): G {
    return this.variant === "attached" ? (this.saver as TurnSaver).attach(graph) : graph;
  }

  note(what: string, value: unknown): void {
    this.notes.push({ what, value });
  }

  /** Runs in the lab's mode, then looks at the thread. An error is a result like any other. */
  async run(graph: any, input: unknown, config: any = thread()): Promise<void> {
    this.note(`${this.mode} result`, await outcomeOf(() => this.#run(graph, input, config)));
    await this.look(graph, config);
  }

  async #run(graph: any, input: unknown, config: any): Promise<unknown> {
    if (this.mode === "invoke") return inOrderOfQuestions(await graph.invoke(input, config));
    if (this.mode === "streamEvents") {
      return eventsByRun(await collect(graph.streamEvents(input, { ...config, version: "v2" })));
    }
    const subgraphs = this.mode === "stream with subgraphs";
    const chunks = await collect(await graph.stream(input, { ...config, streamMode: [...STREAM_MODES], subgraphs }));
    return inFixedOrder(chunks, subgraphs);
  }

  /** The thread's state and all of its history, whole and in parts. */
  async look(graph: any, config: any = thread()): Promise<void> {
    const head = { configurable: { thread_id: config.configurable.thread_id } };
    this.note("state", await outcomeOf(() => graph.getState(head, { subgraphs: true })));
    const history = await this.history(graph, head);
    this.note("history", history);
    const second = history.at(1);
    this.note("history, limit", await this.history(graph, head, { limit: 2 }));
    this.note("history, filter", await this.history(graph, head, { filter: { source: "loop" } }));
    if (second !== undefined) {
      this.note("history, before", await this.history(graph, head, { before: second.config, limit: 3 }));
      const { checkpoint_id } = second.config.configurable;
      // With an id MemorySaver gives the caller's own object back, so the namespace is part of it.
      const at = thread(head.configurable.thread_id, { checkpoint_ns: "", checkpoint_id });
      this.note("state of an older checkpoint", await graph.getState(at, { subgraphs: true }));
    }
    if (this.#lists) this.note("list", await this.list(head));
  }

  async history(graph: any, config: any = thread(), options: object = {}): Promise<any[]> {
    const states: any[] = await collect(graph.getStateHistory(config, options));
    if (this.#oldResults) return states;
    return states.map((state) => ({ ...state, tasks: state.tasks.map(({ result: _, ...task }: any) => task) }));
  }

  /** What the saver itself lists, over all namespaces, by graph. A task's writes come in no promised order. */
  async list(config: any = thread(), options: object = {}): Promise<unknown[]> {
    const tuples = await collect(this.saver.list(config, options));
    return tuples
      .map(({ pendingWrites, ...tuple }: any) => ({
        ...tuple,
        writes: (pendingWrites ?? []).map(([, ...write]: unknown[]) => write).sort(byKey),
      }))
      .sort(byGraph);
  }

  /** The checkpoint whose next node is the given one, newest first. */
  async before(graph: any, node: string, config: any = thread()): Promise<any> {
    const found = (await this.history(graph, config)).find((state) => state.next.includes(node));
    const { checkpoint_id } = found.config.configurable;
    return thread(config.configurable.thread_id, { checkpoint_ns: "", checkpoint_id });
  }

  /** For scenarios whose stored writes differ on purpose. */
  withoutList(): this {
    this.#lists = false;
    return this;
  }

  /**
   * For scenarios in which a node runs again as the same task of the same checkpoint: MemorySaver keeps showing what it returned the
   * first time, this saver shows the last time.
   */
  withoutOldResults(): this {
    this.#oldResults = false;
    return this.withoutList();
  }

  close(): void {
    if ("close" in this.saver) (this.saver as TurnSaver).close();
  }
}

/** Graphs that run side by side send their chunks in any order, and so do the modes: each mode of each graph is compared by itself. */
function inFixedOrder(chunks: any[], subgraphs: boolean): unknown {
  return STREAM_MODES.map((mode) => {
    const ofMode = chunks.filter((chunk) => chunk[subgraphs ? 1 : 0] === mode);
    return { mode, graphs: grouped(ofMode, (chunk) => (subgraphs ? chunk[0].join("|") : "")) };
  });
}

/** How the events of different runs interleave depends on how long a save takes. */
const eventsByRun = (events: any[]): unknown => grouped(events, (event) => event.run_id);

/** In the order in which the groups appear. */
function grouped(items: any[], keyOf: (item: any) => string): unknown[][] {
  const groups = new Map<string, unknown[]>();
  for (const item of items) groups.set(keyOf(item), [...(groups.get(keyOf(item)) ?? []), item]);
  return [...groups.values()];
}

/** Newest first, each graph's by themselves: graphs that run side by side save in any order. */
function byGraph(left: any, right: any): number {
  const [one, other] = [left, right].map(({ config }) => config.configurable.checkpoint_ns.replaceAll(/:[^|]*/g, ""));
  if (one !== other) return one < other ? -1 : 1;
  return left.checkpoint.id < right.checkpoint.id ? 1 : -1;
}

const byKey = (left: unknown, right: unknown): number => (sortKey(left) < sortKey(right) ? -1 : 1);

export const thread = (id = "t", more: object = {}) => ({ configurable: { thread_id: id, ...more } });

export async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

async function outcomeOf(work: () => Promise<unknown>): Promise<unknown> {
  try {
    return { returned: await work() };
  } catch (error) {
    return { threw: error };
  }
}

export async function play(variant: Variant, mode: Mode, scenario: Scenario, engine?: Engine): Promise<Note[]> {
  const lab = new Lab(variant, mode, engine);
  try {
    await scenario(lab);
    return normalised(lab.notes) as Note[];
  } finally {
    lab.close();
  }
}

/** The scenario's notes on every saver must be those of LangGraph's own. */
export async function expectSame(
  mode: Mode,
  scenario: Scenario,
  variants: readonly Variant[] = ["turns", "attached"],
  engine: Engine = anyEngine,
) {
  const wanted = await play("memory", mode, scenario);
  expect(wanted.length).toBeGreaterThan(0);
  for (const variant of variants) {
    const found = await play(variant, mode, scenario, engine);
    expect(found.map(({ what }) => what)).toEqual(wanted.map(({ what }) => what));
    for (const [index, note] of found.entries()) {
      // Plain data. What is strictly equal is equal for jest, whose own comparison takes a fifth of these suites' time.
      if (isDeepStrictEqual(note, wanted[index])) continue;
      expect({ variant, mode, index, ...note }).toEqual({ variant, mode, index, ...wanted[index] });
    }
  }
}
