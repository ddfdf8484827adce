import { Annotation, START, StateGraph } from "@langchain/langgraph";
import type { EffectOptions, TurnSaver, UndoCall, Undos } from "langgraph-checkpoint-turns";
import { checkedEffect, journaled, madeEffect, type Undo } from "../../src/testing-internal";
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

/** An effect in the journal that names another definition than its own for its undo, so that a suite gives many effects one undo. */
export async function effectUndoneBy<T>(
  undo: string | false | undefined,
  name: string,
  fn: (key: string) => T | Promise<T>,
  options: EffectOptions<T> = {},
): Promise<T> {
  return journaled(name, fn, { ...checkedEffect(name, fn, options), undo });
}

/** How a suite undoes: with a call whose input and result it knows. */
export type Undoing = ((call: UndoCall<any, any>) => unknown) | Undo<any, any, boolean>;

/** Definitions that only say how effects that name them are undone, found by no name. */
export function undosNamed(undos: Readonly<Record<string, Undoing>>): Undos {
  return Object.entries(undos).map(([name, undo]) => madeEffect(name, { run: () => undefined, undo: undo as never }));
}

/** Does one deed; the ledger says that it happened. */
export async function doing(ledger: Deeds, deed: Deed): Promise<string> {
  const { name, doubt = false, fails = false } = deed;
  const undo = "undo" in deed ? deed.undo : "back";
  return effectUndoneBy(
    undo,
    name,
    (key) => {
      if (fails) throw new Error(`${name} did not happen`);
      ledger.do(`do ${name}`);
      if (doubt) throw new Error(`${name} timed out`);
      return `${name} by ${key.slice(0, 6)}`;
    },
    { input: { what: name }, onError: doubt ? "unknown" : "retryable" },
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

export function undosOf(ledger: Deeds): Undos {
  return undosNamed({ back: undoing(ledger) });
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
