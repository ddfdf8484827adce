import { Annotation, Command, END, interrupt, Send, START, StateGraph } from "@langchain/langgraph";
import Database from "better-sqlite3";
import type { TurnSaver } from "../../src/index";
import { columnsOf, quiet } from "../support/s1-tools";
import { tempFile } from "../support/temp";
import { openSaver } from "../support/open-saver";

export const THREAD = "thread";

const list = () => Annotation<string[]>({ reducer: (left: string[], right: string[]) => left.concat(right), default: () => [] });
const State = Annotation.Root({
  log: list(),
  asks: Annotation<boolean>(),
  breaks: Annotation<boolean>(),
  more: Annotation<number>(),
});
/** A nested graph doesn't inherit the log: it would give back all it got, and each visit would double the list. */
const InnerInput = Annotation.Root({ asks: Annotation<boolean>() });
const InnerOutput = Annotation.Root({ log: list() });
const Inner = Annotation.Root({ ...InnerInput.spec, ...InnerOutput.spec, inner: list() });
/** Enough elements for a list to be stored element by element, and for time travel to branch it. */
const PARTS = Array.from({ length: 12 }, (_, index) => `part ${index}`.padEnd(40, "."));

/**
 * plan → (work ∥ work by Send) → plain (a graph) → memo (a graph with a memory of its own) → ask (a person) or not → done. `done`
 * fails while `repaired` is false and the input says so.
 */
function graphOn(saver: TurnSaver, repaired: () => boolean) {
  const inner = (name: string) =>
    new StateGraph({ state: Inner, input: InnerInput, output: InnerOutput })
      .addNode(`${name}1`, () => ({ inner: [`${name}1`] }))
      .addNode(`${name}2`, (state) => ({ log: [`${name} after ${state.inner.length}`, ...PARTS], inner: [`${name}2`] }))
      .addEdge(START, `${name}1`)
      .addEdge(`${name}1`, `${name}2`)
      .addEdge(`${name}2`, END);
  const graph = new StateGraph(State)
    .addNode("plan", (state) => ({ log: [`plan ${state.log.length}`, ...PARTS] }))
    .addNode("work", (packet: { part: number }) => ({ log: [`work ${packet.part}`] }))
    .addNode("plain", inner("plain").compile())
    .addNode("memo", inner("memo").compile({ checkpointer: true }))
    .addNode("ask", () => ({ log: [`answer ${String(interrupt("what now?"))}`, `sure ${String(interrupt("sure?"))}`] }))
    .addNode("done", (state) => {
      if (state.breaks && !repaired()) throw new Error("broken");
      return { log: ["done"], more: (state.more ?? 0) + 1 };
    })
    .addEdge(START, "plan")
    .addConditionalEdges("plan", () => [new Send("work", { part: 1 }), new Send("work", { part: 2 })], ["work"])
    .addEdge("work", "plain")
    .addEdge("plain", "memo")
    .addConditionalEdges("memo", (state) => (state.asks ? "ask" : "done"), ["ask", "done"])
    .addEdge("ask", "done")
    .addEdge("done", END)
    .compile({ checkpointer: saver });
  return saver.attach(graph);
}

/** One thing that a user does to the thread. */
export type Act =
  | { do: "input"; asks?: boolean; breaks?: boolean; taskId?: string }
  | { do: "continue"; taskId?: string }
  | { do: "answer"; text: string; taskId?: string }
  | { do: "answer and update"; text: string }
  | { do: "goto"; node: "work" | "done" | "plan"; taskId?: string }
  | { do: "update"; taskId?: string }
  | { do: "update as"; node: "plan" | "memo" | "done" }
  | { do: "travel"; back: number; input?: boolean };

/** All that can be seen of the thread, and all rows it has. */
export interface View {
  state: unknown;
  history: unknown[];
  everywhere: unknown[];
  turns: unknown[];
  tasks: unknown[];
  rows: Record<string, unknown[]>;
}

/** The tables from which a rewind deletes by seq. */
export const REWOUND = [
  "langgraph_snapshots",
  "langgraph_writes",
  "langgraph_checkpoints",
  "langgraph_chunks",
  "langgraph_lists",
  "langgraph_items",
  "langgraph_tasks",
  "langgraph_graphs",
  "langgraph_effects",
];

export class World {
  readonly path: string;
  readonly saver: TurnSaver;
  readonly #graph: ReturnType<typeof graphOn>;
  #repaired = false;

  constructor(path = tempFile()) {
    this.path = path;
    this.saver = openSaver(path, { logger: quiet, synchronous: "normal" });
    this.#graph = graphOn(this.saver, () => this.#repaired);
  }

  /** Does it, and says how it ended: with a value or an error. */
  async act(act: Act): Promise<unknown> {
    try {
      return { value: await this.#do(act) };
    } catch (error) {
      return { error: (error as Error).message };
    }
  }

  async #do(act: Act): Promise<unknown> {
    const taskId = "taskId" in act ? act.taskId : undefined;
    const config = { configurable: { thread_id: THREAD, ...(taskId === undefined ? {} : { task_id: taskId }) } };
    switch (act.do) {
      case "input":
        this.#repaired = false;
        return this.#graph.invoke({ log: ["in"], asks: act.asks ?? false, breaks: act.breaks ?? false }, config);
      case "continue":
        this.#repaired = true;
        return this.#graph.invoke(null, config);
      case "answer":
        await this.#refuseUnasked();
        this.#repaired = true;
        return this.#graph.invoke(new Command({ resume: act.text }), config);
      case "answer and update":
        await this.#refuseUnasked();
        this.#repaired = true;
        return this.#graph.invoke(new Command({ resume: act.text, update: { log: ["updated"] } }), config);
      case "goto":
        this.#repaired = true;
        return this.#graph.invoke(
          new Command({
            goto: act.node === "work" ? new Send("work", { part: 9 }) : act.node,
            update: { log: [`goto ${act.node}`] },
          }),
          config,
        );
      case "update":
        return this.#graph.updateState(config, { log: ["by hand"] }, "done");
      case "update as":
        return this.#graph.updateState(config, { log: [`by hand as ${act.node}`], asks: true }, act.node);
      case "travel": {
        this.#repaired = true;
        const history = await this.history();
        const there = history[Math.min(act.back, history.length - 1)];
        if (there === undefined) throw new Error("nowhere to travel to");
        return this.#graph.invoke(act.input === true ? { log: ["in the past"], asks: false, breaks: false } : null, there.config);
      }
    }
  }

  /** LangGraph keeps an answer to no question beside the next input, and no row says whose it was. */
  async #refuseUnasked(): Promise<void> {
    const { tasks } = await this.#graph.getState({ configurable: { thread_id: THREAD } });
    if (!tasks.some(({ interrupts }) => interrupts.length > 0)) throw new Error("nothing was asked");
  }

  async history() {
    const found = [];
    for await (const state of this.#graph.getStateHistory({ configurable: { thread_id: THREAD } })) found.push(state);
    return found;
  }

  async view(): Promise<View> {
    const everywhere = [];
    for await (const tuple of this.saver.list({ configurable: { thread_id: THREAD } })) everywhere.push(tuple);
    return {
      state: await this.#graph.getState({ configurable: { thread_id: THREAD } }, { subgraphs: true }),
      history: await this.history(),
      everywhere,
      turns: await this.saver.turns.list(THREAD),
      tasks: await this.saver.turns.tasks(THREAD),
      rows: this.rows(),
    };
  }

  /** All rows that a rewind may touch, superseded ones too; the file has no other thread. */
  rows(): Record<string, unknown[]> {
    const db = new Database(this.path, { readonly: true });
    const rowsOf = (table: string): unknown[] => {
      const columns = columnsOf(db, table).map((column) => `"${column}"`);
      return db.prepare(`SELECT * FROM ${table} ORDER BY ${columns.join(", ")}`).all();
    };
    try {
      return Object.fromEntries(REWOUND.map((table) => [table, rowsOf(table)]));
    } finally {
      db.close();
    }
  }

  async newestTask(): Promise<string | undefined> {
    return (await this.saver.turns.tasks(THREAD)).at(-1)?.taskId;
  }

  /** The file as it is now, under another path. */
  copyFile(): string {
    const path = tempFile();
    const db = new Database(this.path, { readonly: true });
    db.pragma("synchronous = OFF");
    db.prepare("VACUUM INTO ?").run(path);
    db.close();
    return path;
  }

  close(): void {
    this.saver.close();
  }
}

/**
 * What is left of a value when ids, times and places in the file are taken out: ids become numbers in the order in which they appear,
 * so that two threads with the same history give the same text.
 */
export function withoutIds(value: unknown): string {
  const names = new Map<string, string>();
  const nameOf = (id: string): string => {
    const known = names.get(id) ?? `#${names.size + 1}`;
    names.set(id, known);
    return known;
  };
  const text = JSON.stringify(value, (key, item: unknown) => (key === "seq" || /Seq$/.test(key) ? "a place" : item), 1);
  return text
    .replace(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{32}\b/g, nameOf)
    .replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g, "a time");
}

/** What a user sees of a thread, without ids. */
export function seen(view: View): string {
  return withoutIds([view.state, view.history, view.turns, view.tasks]);
}
