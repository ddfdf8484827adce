import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { effect, type Undo, type UndoCall, type Undos } from "langgraph-checkpoint-turns";
import type { TurnSaver } from "langgraph-checkpoint-turns";
import { type Deeds, Log, thread } from "./eff-world";
import { dump } from "./s1-tools";

/** One effect that a node has. */
export interface Deed {
  name: string;
  /** Default: `"back"`. */
  undo?: string | false | undefined;
  /** It does not say how it ended. */
  doubt?: boolean;
  /** It did not happen. */
  fails?: boolean;
}

const State = Annotation.Root({
  deeds: Annotation<Deed[]>({ reducer: (_, next) => next, default: () => [] }),
  log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
});

/** Does one deed; the ledger says that it happened. */
export async function doing(ledger: Deeds, deed: Deed): Promise<string> {
  const { name, doubt = false, fails = false } = deed;
  const undo = "undo" in deed ? deed.undo : "back";
  return effect(
    name,
    (key) => {
      if (fails) throw new Error(`${name} did not happen`);
      ledger.do(`do ${name}`);
      if (doubt) throw new Error(`${name} timed out`);
      return `${name} by ${key.slice(0, 6)}`;
    },
    { input: { what: name }, ...(undo === undefined ? {} : { undo }), onError: doubt ? "unknown" : "retryable" },
  );
}

/** Each input is a list of deeds, which one node does one after the other. */
export function choresOn(saver: TurnSaver, ledger: Deeds) {
  const graph = new StateGraph(State)
    .addNode("chores", async ({ deeds }) => {
      const log: string[] = [];
      for (const deed of deeds) log.push(await doing(ledger, deed).catch((error: unknown) => `failed: ${String(error)}`));
      return { log };
    })
    .addEdge(START, "chores")
    .compile({ checkpointer: saver });
  return saver.attach(graph);
}

/** first → (left ∥ right, which is a graph of two nodes) → last, each with an effect of its own name. */
export function treeOn(saver: TurnSaver, ledger: Deeds) {
  const node = (name: string) => async () => ({ log: [await doing(ledger, { name })] });
  const inner = new StateGraph(Log)
    .addNode("right1", node("right1"))
    .addNode("right2", node("right2"))
    .addEdge(START, "right1")
    .addEdge("right1", "right2")
    .compile();
  const graph = new StateGraph(Log)
    .addNode("first", node("first"))
    .addNode("left", node("left"))
    .addNode("right", inner)
    .addNode("last", node("last"))
    .addEdge(START, "first")
    .addEdge("first", "left")
    .addEdge("first", "right")
    .addEdge(["left", "right"], "last")
    .compile({ checkpointer: saver });
  return saver.attach(graph);
}

export const deeds = (...names: string[]): Deed[] => names.map((name) => ({ name }));

export function config(taskId: string, threadId = "t") {
  return { configurable: { ...thread(threadId).configurable, task_id: taskId } };
}

/** Undoes a deed, as the ledger says. */
export function undoing(ledger: Deeds): (call: UndoCall) => void {
  return (call) => ledger.do(`undo ${(call.input as { what: string }).what}`);
}

export function undosOf(ledger: Deeds, more: Record<string, Undo> = {}): Undos {
  return { back: undoing(ledger), ...more };
}

export function undone(ledger: Deeds): string[] {
  return ledger.lines().flatMap((line) => (line.startsWith("undo ") ? [line.slice("undo ".length)] : []));
}

const STATE_TABLES = [
  "langgraph_snapshots",
  "langgraph_writes",
  "langgraph_checkpoints",
  "langgraph_chunks",
  "langgraph_lists",
  "langgraph_items",
  "langgraph_tasks",
  "langgraph_names",
];

/** All rows that make up the state of the threads: what is to be wholly before or wholly after. */
export function stateRows(path: string): Record<string, unknown[]> {
  const all = dump(path);
  return Object.fromEntries(STATE_TABLES.map((table) => [table, all[table] ?? []]));
}
