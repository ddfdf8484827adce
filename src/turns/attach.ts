import { mergeConfigs, type RunnableConfig } from "@langchain/core/runnables";
import { z } from "zod";
import { describe, TurnsError } from "../errors";
import type { Versions } from "../guards/fingerprint";
import { type GatesOptions, resolveGates } from "../guards/gates";
import type { Logger } from "../logger";
import { checkedOptions } from "../options";
import { AttachedGraph } from "./attached-graph";
import { repairNestedResume } from "./nested-resume";
import { pregelOf, type PregelLike } from "./pregel";
import type { TurnRecorder } from "./recorder";
import { isRecorderOf, RecorderFace } from "./recorder-face";
import { watchRuns } from "./watched-runs";

export interface AttachOptions {
  /** Version labels of nodes, by path (`sub|a`) or name: with one, a node's code counts as changed when its label does (docs/drift.md). */
  versions?: Versions | undefined;
  /** Version label of the state: with one, a reducer counts as changed when the label does, and not when its source does. */
  stateVersion?: string | undefined;
  /** Which nodes have a confidence gate. */
  gates?: GatesOptions | undefined;
}

/** Whose graphs are attached to. */
export interface AttachingSaver {
  logger: Logger;
}

const attachOptions = z.strictObject({
  versions: z.record(z.string(), z.string()).optional(),
  stateVersion: z.string().optional(),
  // Checked by themselves, so that they are named as everywhere.
  gates: z.custom<GatesOptions>(() => true).optional(),
});

/**
 * Puts the recorder into the graph's own config, in place: every later invoke, stream, streamEvents, batch and `withConfig` passes it
 * on. Attaching again changes nothing but the options that are given.
 *
 * @throws {TurnsError} INVALID_GRAPH for anything but a compiled graph that was compiled with this saver; INVALID_OPTION
 */
export function attachRecorder(graph: unknown, recorder: TurnRecorder, saver: AttachingSaver, options: AttachOptions = {}): void {
  const { versions, stateVersion, gates } = checkedOptions(attachOptions, options);
  const resolved = { versions, stateVersion, gates: gates && resolveGates(gates) };
  const pregel = pregelOf(graph);
  if (pregel.checkpointer !== saver) {
    throw new TurnsError("INVALID_GRAPH", {
      what: "the graph to attach to",
      expected: "a graph compiled with this saver, compile({ checkpointer: saver })",
      found: `the checkpointer ${describe(pregel.checkpointer)}`,
      remedy: "Compile the graph with the saver that attaches to it.",
    });
  }
  const face = faceOf(pregel, recorder) ?? new RecorderFace(recorder, new AttachedGraph(pregel));
  face.graph.configure(resolved);
  if (faceOf(pregel, recorder) === undefined) {
    pregel.config = mergeConfigs(pregel.config ?? {}, { callbacks: [face] });
    watchRuns(pregel, face, saver);
  }
  repairNestedResume(pregel);
  const unknown = face.graph.unknown(Object.keys({ ...versions, ...resolved.gates }));
  if (unknown.length === 0) return;
  saver.logger.warn(
    { nodes: unknown },
    "versions or gates name nodes that the graph does not show; they count only if a graph that a node calls by itself has such a node",
  );
}

/** Whether a run that carries these callbacks is recorded by this recorder; another saver's, of a graph around this one, is no help. */
export function isRecorded(callbacks: RunnableConfig["callbacks"], recorder: TurnRecorder): boolean {
  return faceIn(callbacks, recorder) !== undefined;
}

/** The id of the run that a run with these callbacks is a part of. */
export function runAround(callbacks: RunnableConfig["callbacks"]): string | undefined {
  return Array.isArray(callbacks) ? undefined : callbacks?.getParentRunId();
}

/** What is known of a graph that the recorder is attached to. @throws {TurnsError} INVALID_GRAPH for one that it is not attached to */
export function attachedGraph(graph: unknown, recorder: TurnRecorder): AttachedGraph {
  const face = faceOf(pregelOf(graph), recorder);
  if (face !== undefined) return face.graph;
  throw new TurnsError("INVALID_GRAPH", {
    what: "the graph",
    expected: "a graph that this saver is attached to",
    found: "one that it is not attached to",
    remedy: "Call saver.attach(graph) first.",
  });
}

function faceOf(pregel: PregelLike, recorder: TurnRecorder): RecorderFace | undefined {
  return faceIn(pregel.config?.callbacks, recorder);
}

function faceIn(callbacks: RunnableConfig["callbacks"], recorder: TurnRecorder): RecorderFace | undefined {
  const handlers: unknown[] = Array.isArray(callbacks) ? callbacks : (callbacks?.handlers ?? []);
  return handlers.find((handler) => isRecorderOf(handler, recorder));
}
