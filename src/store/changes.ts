interface Named {
  threadId: string;
  /** Where the changed row is in the order of its thread. It is the `seq` that `saver.turns.list` and others give for it. */
  seq: number;
}

/** A Thought or an Action was saved, or an Action was settled with its writes. */
export interface TurnChange extends Named {
  kind: "turn";
  id: string;
  turnType: "Thought" | "Action";
  nodeName: string;
  taskId: string;
  createdAt: Date;
  checkpointNs: string;
  checkpointId: string | undefined;
  nodeNs: string;
  nodeTaskId: string;
  step: number;
  attempt: number;
  /** Only Actions have one. */
  status: "ok" | "error" | "interrupted" | "handoff" | undefined;
  /** For an Action: whether LangGraph skips this node task on resume. An Action may come a second time, when it is settled. */
  durable: boolean;
}

export interface CheckpointChange extends Named {
  kind: "checkpoint";
  checkpointNs: string;
  checkpointId: string;
  parentId: string | undefined;
  source: string;
  step: number;
  createdAt: Date;
}

/** A side effect was begun, or what is known of it has changed. */
export interface EffectChange extends Named {
  kind: "effect";
  /** `resolved`: a probe or a person said what had become of it. */
  what: "begun" | "done" | "failed" | "resolved" | "undone" | "undo-failed";
  id: string;
  name: string;
  /** Tells effects of one name in a node task apart. */
  label: string;
  key: string;
  nodeName: string;
  nodeTaskId: string;
  taskId: string;
  tries: number;
  startedAt: Date;
  endedAt: Date | undefined;
}

/** Rows with a greater `seq` than `targetSeq` are gone, or, if the rewind was taken back, restored. */
export interface RewindChange extends Named {
  kind: "rewind";
  /** `undoing`: it has begun to undo effects, and nothing is gone yet. */
  what: "undoing" | "done" | "abandoned" | "taken-back";
  rewindId: string;
  targetTaskId: string;
  targetSeq: number;
  createdAt: Date;
  takenBackAt: Date | undefined;
}

/** Old checkpoints of the thread were removed, with their turns. */
export interface PruneChange extends Named {
  kind: "pruned";
  /** No rewind reaches behind it. */
  prunedSeq: number;
}

/** The thread was deleted. If its id is used again, what comes next belongs to a new thread. */
export interface DeletionChange extends Named {
  kind: "deleted";
  /** Undefined if the id was used again, or allowed again, since. */
  deletedAt: Date | undefined;
}

/** Something that was saved or removed on a thread, with enough to show a line about it. */
export type Change = TurnChange | CheckpointChange | EffectChange | RewindChange | PruneChange | DeletionChange;

/** What a follower has been told of an effect, or of an Action that isn't settled. */
export type Told = EffectChange["what"] | "action";

/** How far a follower of a thread has come. */
export interface Place {
  readonly threadId: string;
  readonly thread: number;
  readonly seq: number;
  readonly epoch: number;
  readonly generation: number;
  readonly prunedSeq: number;
  readonly unswept: number;
  /** How many rewinds were taken back, and how many abandoned. */
  readonly takenBack: number;
  readonly abandoned: number;
  /** Rows that may still change in place, by seq. */
  readonly open: ReadonlyMap<number, Told>;
}

/** A change, and the place behind it; undefined behind a deletion. */
export interface FoundChange {
  thread: number;
  change: Change;
  place: Place | undefined;
}

/** What a follower asks for. */
export interface ChangesQuery {
  /** Undefined for all threads. */
  threadIds: readonly string[] | undefined;
  /** By number of the thread. A thread without a place is read from its beginning. */
  places: ReadonlyMap<number, Place>;
}

export interface FoundChanges {
  /** In the order of each thread. */
  found: readonly FoundChange[];
  /** Where threads stand that nothing is told about. */
  places: readonly Place[];
  /** There is more than was read at once. */
  hasMore: boolean;
}

/** A database tells of commits, as far as it can. Nothing may rely on it. */
export interface Hints {
  /** Whether a test has shown that commits are told of. */
  readonly areHeard: boolean;
  stop(): void;
}
