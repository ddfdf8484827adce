import { Annotation, Command, DeltaChannel, END, interrupt, Send, START, StateGraph } from "@langchain/langgraph";
import type { CheckpointTuple } from "@langchain/langgraph-checkpoint";
import Database from "better-sqlite3";
import type { TurnSaver, TurnSaverOptions } from "../../src/index";
import { quiet } from "./s1-tools";
import { tempFile } from "./temp";
import { openSaver } from "./open-saver";

export const THREAD = "thread";
export const at = (threadId = THREAD, more: object = {}): any => ({ configurable: { thread_id: threadId, ...more } });

/** Long enough to be stored as a part of its own. */
const padded = (text: string): string => `${text} ${"·".repeat(200)}`;
const append = (state: string[], writes: string[][]): string[] => state.concat(...writes);
const list = (): any => Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] });

/** Every node writes the same to `log` and to `delta`, a delta channel unless the frequency of its snapshots is 0. */
function stateOf(frequency: number): any {
  return Annotation.Root({
    log: list(),
    long: list(),
    delta:
      frequency === 0
        ? list()
        : () => new DeltaChannel<string[], string[]>(append, { snapshotFrequency: frequency, initialValueFactory: () => [] }),
    asks: Annotation<boolean>(),
    note: Annotation<string>(),
  } as any);
}
const both = (item: string): any => ({ log: [item], delta: [item], long: [padded(item)] });

/** plan → (work ∥ work by Send) → plain (a graph) → memo (a graph with a memory of its own) → ask (a person) or not → done. */
export function graphOn(saver: TurnSaver, frequency = 1000): any {
  const inner = (name: string): any =>
    new StateGraph(Annotation.Root({ note: Annotation<string>(), inner: list() }) as any)
      .addNode(`${name}1`, () => ({ inner: [padded(`${name}1`)] }))
      .addNode(`${name}2`, (state: any) => ({ note: `${name} after ${state.inner.length}`, inner: [padded(`${name}2`)] }))
      .addNode("person", (state: any) => (name === "plain" && state.note === "inside" ? { note: interrupt("inside?") } : {}))
      .addEdge(START, `${name}1`)
      .addEdge(`${name}1`, "person")
      .addEdge("person", `${name}2`)
      .addEdge(`${name}2`, END);
  const wrapped = (name: string): any => inner(name).compile(name === "memo" ? { checkpointer: true } : {});
  const builder: any = new StateGraph(stateOf(frequency));
  builder
    .addNode("plan", (state: any) => both(`plan ${state.log.length}`))
    .addNode("work", (packet: { part: number }) => both(`work ${packet.part}`))
    .addNode("plain", wrapped("plain"))
    .addNode("memo", wrapped("memo"))
    .addNode("ask", () => both(`answer ${String(interrupt("what now?"))}`))
    .addNode("done", (state: any) => both(`done ${state.note}, ${state.delta.length}`))
    .addEdge(START, "plan")
    .addConditionalEdges("plan", () => [new Send("work", { part: 1 }), new Send("work", { part: 2 })], ["work"])
    .addEdge("work", "plain")
    .addEdge("plain", "memo")
    .addConditionalEdges("memo", (state: any) => (state.asks ? "ask" : "done"), ["ask", "done"])
    .addEdge("ask", "done")
    .addEdge("done", END);
  return saver.attach(builder.compile({ checkpointer: saver }) as object);
}

export const input = (text = "in", asks = false): any => ({ ...both(text), asks, note: "" });

export class Shop {
  readonly path: string;
  saver: TurnSaver;
  graph: any;
  readonly #frequency: number;
  readonly #options: TurnSaverOptions;

  constructor(options: TurnSaverOptions & { frequency?: number; path?: string } = {}) {
    const { frequency = 1000, path = tempFile(), ...rest } = options;
    this.path = path;
    this.#frequency = frequency;
    this.#options = { logger: quiet, synchronous: "normal", ...rest };
    this.saver = openSaver(path, this.#options);
    this.graph = graphOn(this.saver, frequency);
  }

  /** As a new process would find it: nothing is remembered. */
  reopen(): void {
    this.saver.close();
    this.saver = openSaver(this.path, this.#options);
    this.graph = graphOn(this.saver, this.#frequency);
  }

  async run(times: number, threadId = THREAD): Promise<void> {
    for (let time = 0; time < times; time += 1) await this.graph.invoke(input(`in ${time}`), at(threadId));
  }

  async resume(answer: string, threadId = THREAD): Promise<any> {
    return this.graph.invoke(new Command({ resume: answer }), at(threadId));
  }

  async history(threadId = THREAD): Promise<any[]> {
    return collect(this.graph.getStateHistory(at(threadId)));
  }

  /** Checkpoints of all namespaces, each as everybody reads it. */
  async everything(threadId = THREAD): Promise<Map<string, unknown>> {
    const found = new Map<string, unknown>();
    for (const listed of await collect<CheckpointTuple>(this.saver.list(at(threadId)))) {
      const { checkpoint_ns: ns, checkpoint_id: id } = listed.config.configurable as any;
      found.set(`list ${ns} ${id}`, listed);
      found.set(`tuple ${ns} ${id}`, await this.saver.getTuple(listed.config));
      if (ns === "") found.set(`state ${ns} ${id}`, await this.graph.getState(listed.config, { subgraphs: true }));
    }
    for (const state of await this.history(threadId)) found.set(`history  ${state.config.configurable.checkpoint_id}`, state);
    return found;
  }

  /** Ids of the root's checkpoints, newest first. */
  async roots(threadId = THREAD): Promise<string[]> {
    return (await collect<CheckpointTuple>(this.saver.list(at(threadId, { checkpoint_ns: "" })))).map(
      ({ checkpoint }) => checkpoint.id,
    );
  }

  rowsOf(table: string): any[] {
    const db = new Database(this.path, { readonly: true });
    try {
      return db.prepare(`SELECT * FROM ${table}`).all();
    } finally {
      db.close();
    }
  }

  count(table: string): number {
    return this.rowsOf(table).length;
  }

  close(): void {
    this.saver.close();
  }
}

export async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

/** What is there afterwards reads as before. */
export function expectSame(before: Map<string, unknown>, after: Map<string, unknown>): void {
  for (const [what, value] of after) expect([what, value]).toEqual([what, before.get(what)]);
}
