import { mergeConfigs, type RunnableConfig } from "@langchain/core/runnables";
import { describe, TurnsError } from "../errors";
import { repairNestedResume } from "./nested-resume";
import { pregelOf } from "./pregel";
import type { TurnRecorder } from "./recorder";

/**
 * Puts the recorder into the graph's own config, in place: every later invoke, stream, streamEvents, batch and `withConfig` passes it
 * on. Attaching again changes nothing.
 *
 * @throws {TurnsError} INVALID_GRAPH for anything but a compiled graph that was compiled with this saver
 */
export function attachRecorder(graph: unknown, recorder: TurnRecorder, saver: unknown): void {
  const pregel = pregelOf(graph);
  if (pregel.checkpointer !== saver) {
    throw new TurnsError("INVALID_GRAPH", {
      what: "the graph to attach to",
      expected: "a graph compiled with this saver, compile({ checkpointer: saver })",
      found: `the checkpointer ${describe(pregel.checkpointer)}`,
      remedy: "Compile the graph with the saver that attaches to it.",
    });
  }
  const callbacks = pregel.config?.callbacks;
  if (!handlersIn(callbacks).includes(recorder)) pregel.config = mergeConfigs(pregel.config ?? {}, { callbacks: [recorder] });
  repairNestedResume(pregel);
}

/** Whether a run that carries these callbacks is recorded by this recorder; another saver's, of a graph around this one, is no help. */
export function isRecorded(callbacks: RunnableConfig["callbacks"], recorder: TurnRecorder): boolean {
  return handlersIn(callbacks).includes(recorder);
}

function handlersIn(callbacks: RunnableConfig["callbacks"]): unknown[] {
  return Array.isArray(callbacks) ? callbacks : (callbacks?.handlers ?? []);
}
