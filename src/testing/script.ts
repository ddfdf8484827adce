import type { TurnSaver } from "../saver";
import type { GraphModule, GraphWorld, Step } from "./graph-module";

export type NamedStep = { input: unknown; taskId: string } | Extract<Step, { rewindTo: string }>;

/** A module's steps, each input with the task that it starts. */
export function stepsOf({ input, steps }: GraphModule, world: GraphWorld): NamedStep[] {
  const called = (value: unknown): unknown =>
    typeof value === "function" ? (value as (world: GraphWorld) => unknown)(world) : value;
  const given = steps === undefined ? [{ input: called(input) }] : (called(steps) as readonly Step[]);
  return given.map((step, index) => ("rewindTo" in step ? step : { taskId: `step-${index + 1}`, ...step }));
}

/**
 * Where to go on, by what the database says: behind the last rewind that was done, at the last input whose task was begun; what comes
 * before it has ended, since inputs are refused while anything is unfinished.
 *
 * @returns the index of the step, and whether its input has been taken
 */
export async function beginningAt(
  saver: TurnSaver,
  threadId: string,
  steps: readonly NamedStep[],
): Promise<{ at: number; begun: boolean }> {
  const rewinds = steps.flatMap((step, index) => ("rewindTo" in step ? [index] : []));
  const done = (await saver.listRewinds(threadId)).filter(
    ({ status, reason }) => status === "done" && reason === undefined,
  ).length;
  const at = done === 0 ? 0 : (rewinds[done - 1] ?? steps.length - 1) + 1;
  const tasks = new Set(await threadTasks(saver, threadId));
  const begun = steps.findLastIndex((step, index) => index >= at && "taskId" in step && tasks.has(step.taskId));
  return begun === -1 ? { at, begun: false } : { at: begun, begun: true };
}

async function threadTasks(saver: TurnSaver, threadId: string): Promise<string[]> {
  for await (const thread of saver.listThreads()) {
    if (thread.threadId === threadId) return (await saver.listTasks(threadId)).map(({ taskId }) => taskId);
  }
  return [];
}
