import { mergeConfigs, type RunnableConfig } from "@langchain/core/runnables";
import { z } from "zod";
import { describe, TurnsError } from "../errors";
import type { Versions } from "../guards/graph-document";
import { type GatesOptions, resolveGates } from "../guards/gates";
import type { Logger } from "../logger";
import { checkedOptions } from "../options";
import { AttachedGraph, pregelOf, type PregelLike } from "./attached-graph";
import { keepEffectsOutOfCache } from "./cached-outputs";
import { fromKnownCheckpoint, type HasCheckpoint } from "./first-checkpoint";
import { repairNestedResume } from "./nested-resume";
import { faceIn, isRecorderOf, RecorderFace, type TurnRecorder } from "./recorder";

/** Options of `saver.attach`. */
export interface AttachOptions {
  /**
   * Version labels of nodes, by path (`sub|a`) or name. With a label, a node's code counts as changed when the label changes
   * (docs/drift.md).
   */
  versions?: Versions | undefined;
  /** Version label of the state. With one, a reducer counts as changed when the label changes, not when its source does. */
  stateVersion?: string | undefined;
  /** Which nodes have a confidence gate. */
  gates?: GatesOptions | undefined;
}

/** The saver whose graphs are attached to. */
interface AttachingSaver {
  saver: object;
  logger: Logger;
  hasCheckpoint: HasCheckpoint;
}

const attachOptions = () =>
  z.strictObject({
    versions: z.record(z.string(), z.string()).optional(),
    stateVersion: z.string().optional(),
    // Checked separately, so that errors name the setting in the usual way.
    gates: z.custom<GatesOptions>(() => true).optional(),
  });

/**
 * Puts the recorder into the graph's own config, in place, so every later invoke, stream, streamEvents, batch and `withConfig`
 * passes it on. Attaching again changes only the options that are given.
 *
 * @throws {TurnsError} INVALID_GRAPH unless this is a graph compiled with this saver; INVALID_OPTION
 */
export function attachRecorder(
  graph: unknown,
  recorder: TurnRecorder,
  { saver, logger, hasCheckpoint }: AttachingSaver,
  options: AttachOptions = {},
): void {
  const { versions, stateVersion, gates } = checkedOptions(attachOptions, options);
  const resolved = { versions, stateVersion, gates: gates && resolveGates(gates) };
  const pregel = pregelOf(graph);
  if (pregel.checkpointer !== saver) {
    throw new TurnsError("INVALID_GRAPH", {
      problem: `The graph was compiled with another checkpointer: ${describe(pregel.checkpointer)}.`,
      remedy: "Compile it with the saver that attaches to it: builder.compile({ checkpointer: saver }).",
    });
  }
  const face = faceOf(pregel, recorder) ?? new RecorderFace(recorder, new AttachedGraph(pregel));
  face.graph.configure(resolved);
  if (faceOf(pregel, recorder) === undefined) {
    pregel.config = mergeConfigs(pregel.config ?? {}, { callbacks: [face] });
    watchRuns(pregel, face, { saver, hasCheckpoint });
  }
  repairNestedResume(pregel);
  // Usually done before the first run begins. If it fails, the first node's start says so.
  face.graph.describe()?.catch(() => undefined);
  const unknown = face.graph.unknown(Object.keys({ ...versions, ...resolved.gates }));
  if (unknown.length === 0) return;
  logger.warn(
    { nodes: unknown },
    "versions or gates name nodes that the graph does not show; they count only if a graph that a node calls by itself has such a node",
  );
}

/** What is known of an attached graph. @throws {TurnsError} INVALID_GRAPH for a graph that isn't attached to this recorder */
export function attachedGraph(graph: unknown, recorder: TurnRecorder): AttachedGraph {
  const face = faceOf(pregelOf(graph), recorder);
  if (face !== undefined) return face.graph;
  throw new TurnsError("INVALID_GRAPH", {
    problem: "This saver is not attached to the graph.",
    remedy: "Call saver.attach(graph) first.",
  });
}

function faceOf(pregel: PregelLike, recorder: TurnRecorder): RecorderFace | undefined {
  return faceIn(pregel.config?.callbacks, recorder);
}

type Callbacks = RunnableConfig["callbacks"];

interface RunOptions extends RunnableConfig {
  streamMode?: string | string[];
  subgraphs?: boolean;
  encoding?: string;
  version?: string;
}

/** The part of a compiled graph that every kind of run passes through: invoke, stream, streamEvents and batch. */
interface RunningGraph extends PregelLike {
  streamMode?: string[];
  _streamIterator: (input: unknown, options?: RunOptions) => AsyncGenerator<unknown>;
  /** The settings a run is made with: the fifth is its config, the eighth its checkpointer. */
  _defaults: (config: RunnableConfig) => unknown[];
  /** Runs all steps. Then the last saves have been handed in, or are about to be. */
  _runLoop?: (run: FinishingRun) => Promise<void>;
  withConfig: (config: RunnableConfig) => RunningGraph;
  getState: (config: RunnableConfig, options?: unknown) => Promise<{ config: ShownConfig }>;
}

/** A run as LangGraph has it. Another version may have it differently. */
interface FinishingRun {
  loop?: { manager?: { runId?: string }; checkpoint?: { id?: string } };
}

const CONFIG = 4;
const CHECKPOINTER = 7;
/** In `configurable`: a checkpointer to use instead of the graph's. */
const OTHER_CHECKPOINTER = "__pregel_checkpointer";

/**
 * Watches each run of an attached graph, copies made by `withConfig` included. It refuses a run that is told to begin at a
 * checkpoint that doesn't exist. It tells the recorder which checkpointer the run uses, and when its last step is over. It keeps
 * outputs with effects out of LangGraph's cache, and the recorder out of configs that users see: in the streams "debug" and
 * "checkpoints", and in `getState` of a thread without checkpoints.
 *
 * @param face what was put into the graph's callbacks
 * @param recording the saver that the face records for
 */
function watchRuns(graph: PregelLike, face: RecorderFace, recording: Pick<AttachingSaver, "saver" | "hasCheckpoint">): void {
  const { saver, hasCheckpoint } = recording;
  const pregel = graph as RunningGraph;
  const { _streamIterator: run, _defaults: defaults, _runLoop: runSteps, withConfig, getState } = pregel;
  const replace = (name: keyof RunningGraph, value: unknown): void =>
    void Object.defineProperty(pregel, name, { value, configurable: true, writable: true });
  replace("_defaults", (config: RunnableConfig) => {
    const resolved = defaults.call(pregel, config);
    if (resolved[CHECKPOINTER] !== saver)
      replaceFace(resolved[CONFIG] as RunnableConfig, face, face.without(resolved[CHECKPOINTER]));
    return resolved;
  });
  replace("_streamIterator", (input: unknown, options?: RunOptions) => {
    const configurable = { ...pregel.config?.configurable, ...options?.configurable };
    const isOurs = (configurable[OTHER_CHECKPOINTER] ?? pregel.checkpointer) === saver;
    const begun = run.call(pregel, input, options);
    const chunks = isOurs ? fromKnownCheckpoint(begun, configurable, hasCheckpoint) : begun;
    const shown = checkpointsIn(options, pregel.streamMode);
    const threadId = String(options?.configurable?.["thread_id"]);
    return toTheEnd(shown === undefined ? chunks : withoutRecorder(chunks, shown, face), options?.signal, () =>
      face.recorder.left.began(threadId),
    );
  });
  if (runSteps !== undefined)
    replace("_runLoop", async (finishing: FinishingRun) => {
      if (finishing.loop !== undefined) keepEffectsOutOfCache(finishing.loop);
      await runSteps.call(pregel, finishing);
      const { manager, checkpoint } = finishing.loop ?? {};
      if (manager?.runId !== undefined && checkpoint?.id !== undefined) face.recorder.stepsEnded(manager.runId, checkpoint.id);
    });
  replace("getState", async (config: RunnableConfig, stateOptions?: unknown) => {
    const state = await getState.call(pregel, config, stateOptions);
    hideRecorder(state.config, face);
    return state;
  });
  replace("withConfig", (config: RunnableConfig) => {
    const copy = withConfig.call(pregel, config);
    watchRuns(copy, face, recording);
    return copy;
  });
}

/**
 * Reads a run to its end if its reader leaves before, because the run was aborted or the stream was closed. LangGraph reports the
 * end of a run only to somebody who reads that far, and until it is reported the run keeps its thread.
 *
 * @param left is called when the reader leaves, and what it returns when the run has stopped
 */
function toTheEnd(
  chunks: AsyncGenerator<unknown>,
  signal: AbortSignal | undefined,
  left: () => () => void,
): AsyncGenerator<unknown> {
  let end: Promise<void> | undefined;
  let isBegun = false;
  const readOn = (): Promise<void> => (end ??= readToEnd(chunks).finally(left()));
  const isAborted = (): void => void (isBegun && readOn());
  const isOver = (): void => signal?.removeEventListener("abort", isAborted);
  signal?.addEventListener("abort", isAborted, { once: true });
  const read: AsyncGenerator<unknown> = {
    async next() {
      isBegun = true;
      try {
        const next = chunks.next();
        if (signal?.aborted === true) void readOn();
        const result = await next;
        if (result.done === true) isOver();
        return result;
      } catch (error) {
        isOver();
        throw error;
      }
    },
    async return(value: unknown) {
      isOver();
      if (!isBegun) return chunks.return(value);
      await readOn();
      return { done: true, value };
    },
    throw: async (error: unknown) => chunks.throw(error),
    [Symbol.asyncIterator]: () => read,
    [Symbol.asyncDispose]: async () => void (await read.return(undefined)),
  };
  return read;
}

async function readToEnd(chunks: AsyncGenerator<unknown>): Promise<void> {
  try {
    while ((await chunks.next()).done !== true);
  } catch {
    // LangGraph has reported it to the callbacks, and nobody waits for it any more.
  }
}

/** For this run only: the config is the run's own, but its callbacks may be the graph's. */
function replaceFace(config: RunnableConfig, face: RecorderFace, other: RecorderFace): void {
  const { callbacks } = config;
  if (Array.isArray(callbacks)) config.callbacks = callbacks.map((handler) => (handler === face ? other : handler));
  else if (callbacks?.handlers.includes(face) === true) {
    config.callbacks = callbacks.copy([other]);
    config.callbacks.removeHandler(face);
  }
}

/** Finds the checkpoint that a chunk shows. The form of a stream's chunks follows from its options. */
type CheckpointIn = (chunk: unknown) => { config?: ShownConfig; parentConfig?: ShownConfig } | undefined;

interface ShownConfig {
  callbacks?: Callbacks;
  configurable?: Record<string, unknown>;
  run_name?: string;
}

function checkpointsIn(options: RunOptions | undefined, own: string[] = []): CheckpointIn | undefined {
  const modes = [options?.streamMode ?? own].flat();
  if (!modes.includes("debug") && !modes.includes("checkpoints")) return undefined;
  // LangGraph itself removes the callbacks from what it sends as text.
  if (options?.encoding === "text/event-stream" && options.version === undefined) return undefined;
  const isSingle = !Array.isArray(options?.streamMode);
  return (chunk) => {
    const parts = isSingle && options?.subgraphs !== true ? [chunk] : (chunk as unknown[]);
    const payload = parts.at(-1) as ReturnType<CheckpointIn> & { type?: string; payload?: ReturnType<CheckpointIn> };
    const mode = isSingle ? modes[0] : parts.at(-2);
    if (mode === "checkpoints") return payload;
    return mode === "debug" && payload.type === "checkpoint" ? payload.payload : undefined;
  };
}

/** LangGraph makes these configs only for the chunk. */
async function* withoutRecorder(
  chunks: AsyncIterable<unknown>,
  shown: CheckpointIn,
  face: RecorderFace,
): AsyncGenerator<unknown> {
  for await (const chunk of chunks) {
    const checkpoint = shown(chunk);
    for (const config of [checkpoint?.config, checkpoint?.parentConfig]) hideRecorder(config, face);
    yield chunk;
  }
}

function hideRecorder(config: ShownConfig | undefined, face: RecorderFace): void {
  if (config?.callbacks === undefined) return;
  const left = withoutFaces(config.callbacks, face);
  if (left !== undefined) {
    config.callbacks = left;
    return;
  }
  delete config.callbacks;
  // Without any callbacks, LangChain leaves the node's name in the config of the graph that the node runs.
  const ns: unknown = config.configurable?.["checkpoint_ns"];
  if (typeof ns === "string" && ns !== "") config.run_name ??= nodeAround(ns);
}

/** The node that runs the graph of this namespace. The last segment may be the number of the call in the node. */
function nodeAround(ns: string): string {
  return ns
    .replace(/\|\d+$/, "")
    .replace(/^.*\|/, "")
    .replace(/:.*$/, "");
}

/** @returns undefined if nothing else is left: a config without any callbacks has none */
function withoutFaces(callbacks: NonNullable<Callbacks>, { recorder }: RecorderFace): Callbacks {
  if (Array.isArray(callbacks)) {
    const left = callbacks.filter((handler) => !isRecorderOf(handler, recorder));
    return left.length === 0 && callbacks.length > 0 ? undefined : left;
  }
  const own = callbacks.handlers.filter((handler) => isRecorderOf(handler, recorder));
  if (own.length === 0) return callbacks;
  if (own.length === callbacks.handlers.length) return undefined;
  const copy = callbacks.copy();
  for (const handler of own) copy.removeHandler(handler);
  return copy;
}
