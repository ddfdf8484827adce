import type { CheckpointTuple } from "@langchain/langgraph-checkpoint";
import { describe, TurnsError } from "./errors";
import type { GraphDocument } from "./guards/graph-document";
import type { Logger } from "./logger";
import type { CheckpointRewindRequest, RewindReport } from "./rewind/plan";
import type { Undos } from "./rewind/undos";
import type { CheckpointHead, LastRun, Lease, Store } from "./store/store";
import type { RecordedGraph } from "./turns/attached-graph";

/** What other modules of this package need from a saver. Not public. */
export interface Internals {
  readonly store: Store;
  readonly logger: Logger;
  /** Whether the file is encrypted. */
  readonly encrypted: boolean;
  readonly createId: () => string;
  readonly clock: () => Date;
  /**
   * The structure of an attached graph (docs/drift.md).
   *
   * @throws {TurnsError} INVALID_GRAPH for a graph that the saver isn't attached to
   */
  documentOf(graph: object): Promise<GraphDocument>;
  /**
   * The graphs in which these turns of one thread ran, oldest turn first. Turns recorded without a graph are left out.
   *
   * @throws {TurnsError} CHECKPOINT_CORRUPTED if a document isn't what was stored
   */
  recordedGraphs(threadId: string, turns: readonly { id: string }[]): Promise<RecordedGraph[]>;
  /** The run that the thread's newest checkpoint belongs to. */
  lastRun(threadId: string): Promise<LastRun | undefined>;
  /** Reserves a thread for one run; see `RunRegistry.reserve`. @throws {TurnsError} THREAD_RUNNING */
  reserve(threadId: string): Promise<() => Promise<void>>;
  /** Holds a thread for work on the whole of it: no run starts meanwhile; see `RunRegistry.hold`. @throws {TurnsError} THREAD_RUNNING */
  hold(threadId: string): Promise<{ lease: Lease; release(): Promise<void> }>;
  /** Resolves when the thread's runs that their readers left have stopped, and their nodes too, except those that ignore the abort. */
  leftRunsStopped(threadId: string): Promise<void>;
  /** Keeps the database open during a drain until you call the returned function. */
  keepOpen(): () => void;
  /** Suspends the option `retention` for a thread until you call the returned function; see `Retention.hold`. */
  holdRetention(threadId: string): () => void;
  /** `saver.rewinds.toCheckpoint` for a caller that has reserved the thread and isn't running anything on it. */
  rewindToCheckpoint(request: CheckpointRewindRequest, undos: Undos | undefined): Promise<RewindReport>;
  /** Reads a listed checkpoint, or only those of its channels that the head names. Undefined if it was deleted meanwhile. */
  readHead(head: CheckpointHead): Promise<CheckpointTuple | undefined>;
  /** How many rewinds of a thread were started or done for a reason. */
  countRewinds(threadId: string, reason: string): Promise<number>;
}

/** Internals by saver, shared by all copies of this package (ESM beside CommonJS). */
const known: WeakMap<object, Internals> = ((globalThis as Record<symbol, unknown>)[
  Symbol.for("langgraph-checkpoint-turns.internals")
] ??= new WeakMap<object, Internals>()) as WeakMap<object, Internals>;

export function keepInternals(saver: object, internals: Internals): void {
  known.set(saver, internals);
}

/** Whether this is a TurnSaver. Also recognises one of the other build of this package, which `instanceof` can't. */
export function isSaver(value: unknown): boolean {
  return typeof value === "object" && value !== null && known.has(value);
}

/** @throws {TurnsError} INVALID_OPTION unless this is a TurnSaver */
export function internalsOf(saver: object): Internals {
  const internals = isSaver(saver) ? known.get(saver) : undefined;
  if (internals !== undefined) return internals;
  throw new TurnsError("INVALID_OPTION", {
    problem: `The saver is ${describe(saver)}. It must be a TurnSaver.`,
    remedy: "Pass the saver, e.g. TurnSaver.fromPath(path).",
  });
}
