import type { CheckpointTuple } from "@langchain/langgraph-checkpoint";
import { describe, TurnsError } from "./errors";
import type { GraphDocument } from "./guards/graph-document";
import { keptIn } from "./known-savers";
import type { Logger } from "./logger";
import type { CheckpointRewindRequest, RewindReport } from "./rewind/plan";
import type { Undos } from "./rewind/undos";
import type { CheckpointHead, LastRun, Lease, RecoveryClaim, Store, WantedWrites } from "./store/store";
import type { Asked } from "./tuples";
import type { RecordedGraph } from "./turns/attached-graph";
import type { Hold, Release } from "./turns/run-registry";

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
  reserve(threadId: string): Promise<Release>;
  /** {@link reserve} to recover the thread; undefined if it's no longer as it was found. @throws {TurnsError} THREAD_RUNNING */
  claim(threadId: string, claim: RecoveryClaim): Promise<Release | undefined>;
  /** The lease of the thread's current run. */
  leaseOf(threadId: string): Lease | undefined;
  /** Whether a drain has begun, or the database is closed. */
  isStopping(): boolean;
  /** Whether what nodes throw may be recorded as it is (S4.6). */
  readonly keepsErrors: boolean;
  now(): number;
  /** Holds a thread for work on the whole of it: no run starts meanwhile; see `RunRegistry.hold`. @throws {TurnsError} THREAD_RUNNING */
  hold(threadId: string): Promise<Hold>;
  /** Resolves when the thread's runs that their readers left have stopped, and their nodes too, except those that ignore the abort. */
  leftRunsStopped(threadId: string): Promise<void>;
  /** Keeps the database open during a drain until you call the returned function. */
  keepOpen(): () => void;
  /** Suspends the option `retention` for a thread until you call the returned function; see `Retention.hold`. */
  holdRetention(threadId: string): () => void;
  /** `saver.rewinds.toCheckpoint` for a caller that has reserved the thread and isn't running anything on it. */
  rewindToCheckpoint(request: CheckpointRewindRequest, undos: Undos | undefined): Promise<RewindReport>;
  /** Reads a listed checkpoint, or only those of its channels that the head names. Undefined if it was deleted meanwhile. */
  readHead(head: CheckpointHead, wanted: WantedWrites): Promise<CheckpointTuple | undefined>;
  /** What node tasks asked and were told from a seq on, in all namespaces; oldest first, replaced versions included. */
  asked(threadId: string, sinceSeq: number): Promise<Asked[]>;
  /** How many rewinds of a thread were started or done for a reason. */
  countRewinds(threadId: string, reason: string): Promise<number>;
}

/** @throws {TurnsError} INVALID_OPTION unless this is a TurnSaver */
export function internalsOf(saver: object): Internals {
  const internals = keptIn(saver) as Internals | undefined;
  if (internals !== undefined) return internals;
  throw new TurnsError("INVALID_OPTION", {
    problem: `The saver is ${describe(saver)}. It must be a TurnSaver.`,
    remedy: "Pass the saver, e.g. TurnSaver.fromPath(path).",
  });
}
