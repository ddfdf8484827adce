import { RecorderFace } from "./recorder";

/** A node task as LangGraph's loop has it. */
interface LoopTask {
  /** Where its output is cached; LangGraph caches nothing without it. */
  cache_key?: unknown;
  config?: { configurable?: Record<string, unknown> };
}

/** What this package needs of LangGraph's loop, which runs one graph. */
interface Loop {
  input?: unknown;
  step?: number;
  tasks?: Record<string, LoopTask>;
  manager?: { handlers?: readonly unknown[] };
  putWrites: (taskId: string, ...rest: unknown[]) => unknown;
}

const INPUT_RESUMING = Symbol.for("INPUT_RESUMING");

const changed = new WeakSet<object>();
/** The first step in which each loop's tasks wrote something. */
const firstSteps = new WeakMap<Loop, number | undefined>();

/**
 * Keeps outputs of node tasks with effects out of LangGraph's cache. Somebody who takes such an output would do without the effect,
 * which may be undone by then.
 *
 * All loops of this copy of LangGraph are changed, at their prototype: a graph that a node calls has a loop and a cache of its own,
 * and nothing else leads to them. Without a recorder, or without a cache policy, a loop works as before.
 *
 * @param loop any loop
 */
export function keepEffectsOutOfCache(loop: object): void {
  const prototype = Object.getPrototypeOf(loop) as Loop | null;
  if (prototype === null || changed.has(prototype) || typeof prototype.putWrites !== "function") return;
  changed.add(prototype);
  const { putWrites } = prototype;
  const replaced = function (this: Loop, taskId: string, ...rest: unknown[]): unknown {
    const task = this.tasks?.[taskId];
    if (task !== undefined && !firstSteps.has(this)) firstSteps.set(this, this.step);
    if (task?.cache_key !== undefined && mayHaveEffects(this, taskId, task)) task.cache_key = undefined;
    return putWrites.call(this, taskId, ...rest);
  };
  Object.defineProperty(prototype, "putWrites", { value: replaced, configurable: true, writable: true });
}

function mayHaveEffects(loop: Loop, taskId: string, task: LoopTask): boolean {
  const recorders = (loop.manager?.handlers ?? []).flatMap((handler) =>
    handler instanceof RecorderFace ? handler.recorder : [],
  );
  if (recorders.length === 0) return false;
  return recorders.some((recorder) => recorder.hasEffects(taskId)) || continuesInnerWork(loop, task);
}

/**
 * Whether a node task with graphs or tasks inside it may have begun in an earlier run: what finished there doesn't run again, so
 * its effects aren't seen now.
 */
function continuesInnerWork(loop: Loop, { config }: LoopTask): boolean {
  if (loop.input !== INPUT_RESUMING || firstSteps.get(loop) !== loop.step) return false;
  const { callCounter = 0, subgraphCounter = 0 } = (config?.configurable?.["__pregel_scratchpad"] ?? {}) as {
    callCounter?: number;
    subgraphCounter?: number;
  };
  return callCounter > 0 || subgraphCounter > 0;
}
