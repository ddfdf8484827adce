import { describe, TurnsError } from "./errors";
import type { GraphDocument } from "./guards/fingerprint";
import type { Logger } from "./logger";
import type { CheckpointRewindRequest, RewindReport } from "./rewind/plan";
import type { Undos } from "./rewind/undos";
import type { LastRun, Store } from "./store/store";
import type { RecordedGraph } from "./turns/attached-graph";

/** What the rooms of this package that are given a saver need of it, and nobody else. */
export interface Internals {
  readonly store: Store;
  readonly logger: Logger;
  /** Whether what runs produce is sealed in the file. */
  readonly encrypted: boolean;
  /** What an attached graph is made of (docs/drift.md). @throws {TurnsError} INVALID_GRAPH for a graph that the saver isn't attached to */
  documentOf(graph: object): GraphDocument;
  /**
   * What the graphs were made of in which these turns of one thread ran, oldest turn first. Turns that were recorded without a graph are
   * in none of them.
   *
   * @throws {TurnsError} CHECKPOINT_CORRUPTED if a document is not what was stored
   */
  recordedGraphs(threadId: string, turns: readonly { id: string }[]): Promise<RecordedGraph[]>;
  /** The run that a thread's newest checkpoint is of. */
  lastRun(threadId: string): Promise<LastRun | undefined>;
  /** Takes a thread for one run; see `RunRegistry.reserve`. @throws {TurnsError} THREAD_RUNNING */
  reserve(threadId: string): Promise<() => Promise<void>>;
  /** A drain leaves the database open until what is returned is called. */
  keepOpen(): () => void;
  /** Lets a thread be, whatever the option `retention` says, until what is returned is called; see `Retention.hold`. */
  holdRetention(threadId: string): () => void;
  /** `saver.rewinds.toCheckpoint` for a caller that has reserved the thread, and runs nothing on it just now. */
  rewindToCheckpoint(request: CheckpointRewindRequest, undos: Undos | undefined): Promise<RewindReport>;
  /** How many rewinds of a thread were done, or begun, for a reason. */
  countRewinds(threadId: string, reason: string): Promise<number>;
}

/** By saver, over all copies of this package (ESM beside CommonJS). */
const known: WeakMap<object, Internals> = ((globalThis as Record<symbol, unknown>)[
  Symbol.for("langgraph-checkpoint-turns.internals")
] ??= new WeakMap<object, Internals>()) as WeakMap<object, Internals>;

export function keepInternals(saver: object, internals: Internals): void {
  known.set(saver, internals);
}

/** Whether it is a TurnSaver, also one of the other build of this package, where `instanceof` would not tell. */
export function isSaver(value: unknown): boolean {
  return typeof value === "object" && value !== null && known.has(value);
}

/** @throws {TurnsError} INVALID_OPTION for what is no TurnSaver */
export function internalsOf(saver: object): Internals {
  const internals = isSaver(saver) ? known.get(saver) : undefined;
  if (internals !== undefined) return internals;
  throw new TurnsError("INVALID_OPTION", {
    problem: `The saver is ${describe(saver)}. It must be a TurnSaver.`,
    remedy: "Pass the saver, e.g. TurnSaver.fromPath(path).",
  });
}
