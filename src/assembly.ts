import { EffectContent } from "./effects/content";
import { Effects } from "./effects/effects";
import { EffectJournal } from "./effects/journal";
import { SaverEmitter } from "./events";
import { type Internals, internalsOf } from "./internals";
import { isSaver } from "./known-savers";
import type { ResolvedOptions } from "./options";
import { RetentionControl } from "./retention/control";
import { Names } from "./retention/names";
import type { PruneParts } from "./retention/prune";
import { Retention } from "./retention/retention";
import { SpaceKeeper } from "./retention/space";
import { type RewindParts, Rewinds, rewound } from "./rewind/rewinds";
import { checkedId, RunNames, RunStarts } from "./run-config";
import { PlannedThoughts } from "./saving/planned-thoughts";
import { CheckpointSaves } from "./saving/put";
import { WritesSaves } from "./saving/put-writes";
import { SaveProgress } from "./saving/save-progress";
import { UserSerde } from "./serde";
import type { Store } from "./store/store";
import { attachedGraph } from "./turns/attach";
import { recordedGraphsOf } from "./turns/attached-graph";
import { Draining } from "./turns/draining";
import { isAlive } from "./turns/process-identity";
import { FailureLog } from "./turns/failure-log";
import { EarlyOutcomes, SeenCheckpoints, UnsavedResults } from "./turns/handed-in";
import { PendingFailures } from "./turns/pending-failures";
import { JOURNAL, TurnRecorder } from "./turns/recorder";
import { Redaction } from "./turns/redaction";
import { RunRegistry } from "./turns/run-registry";
import { TurnLog } from "./turns/turn-log";
import { TurnReports } from "./turns/turn-reports";
import { Turns } from "./turns/turns";
import { Values } from "./values";

/** What a saver is made of. */
interface Assembly {
  events: SaverEmitter;
  store: Store;
  values: Values;
  serde: UserSerde | undefined;
  effects: Effects;
  turns: Turns;
  rewinds: Rewinds;
  control: RetentionControl;
  names: Names;
  runs: RunRegistry;
  recorder: TurnRecorder;
  space: SpaceKeeper;
  retention: Retention | undefined;
  rewinding: RewindParts;
  pruning: PruneParts;
  runNames: RunNames;
  runStarts: RunStarts;
  checkpointSaves: CheckpointSaves;
  writesSaves: WritesSaves;
  seen: SeenCheckpoints;
  draining: Draining;
}

/** Assembles a saver on a store. */
export function assembled(store: Store, options: ResolvedOptions): Assembly {
  const { logger, createId, clock } = options;
  const serde = options.serde && new UserSerde(options.serde);
  const events = new SaverEmitter(logger);
  const values = new Values(options, store);
  const draining = new Draining();
  const runs = new RunRegistry({ store, log: logger, createId, clock, draining });
  const failures = new PendingFailures(runs);
  const space = new SpaceKeeper(store, logger, isAlive);
  const now = (): number => clock().getTime();
  const retention = options.retention && new Retention({ store, options: options.retention, now, log: logger, events, space });
  const redaction = new Redaction(options, values, serde, events);
  if (!redaction.recordsTurns) {
    logger.debug({}, 'turns: "off": what is in flight, tokens and the history of turns will not be known');
  }
  const runNames = new RunNames();
  const namesOf = (threadId: string): ReturnType<RunNames["of"]> => runNames.of(threadId);
  const seen = new SeenCheckpoints();
  const failureLog = new FailureLog(logger);
  const reports = new TurnReports(events, failureLog);
  const unsaved = new UnsavedResults();
  const log = new TurnLog({ store, options, reports, runs, failures, redaction, seen, unsaved, names: runNames });
  const recorder = new TurnRecorder(log, runs.bodies, draining);
  const content = new EffectContent(store, values, serde);
  const journaled = { store, content, options, events };
  recorder[JOURNAL] = new EffectJournal({
    isOf: (saver) => isSaver(saver) && internalsOf(saver as object).store === store,
    attemptOf: (runId, nodeTaskId) => recorder.liveAttemptOf(runId, nodeTaskId),
    called: (attempt) => recorder.callsEffect(attempt),
    namesOf,
    ...journaled,
  });
  const runStarts = new RunStarts(recorder);
  const told = { options, store, events, log: failureLog, reports };
  const progress = new SaveProgress({ ...told, seen, unsaved, runs, runStarts, recorder, draining, failures, retention });
  const saving = { options, recorder, store, values, serde, runNames, runStarts, early: new EarlyOutcomes(), progress, draining };
  const planned = new PlannedThoughts(options, redaction);
  const checkpointSaves = new CheckpointSaves({ ...saving, runs, planned, unsaved });
  const writesSaves = new WritesSaves({ ...saving, redaction, seen });
  const rewinding: RewindParts = {
    now: () => clock().toISOString(),
    isAlive,
    hold: (threadId, within) => runs.hold(threadId, within),
    keepOpen: (threadId) => draining.keepOpen(threadId),
    ...{ store, content, events, space, createId },
  };
  const pruning: PruneParts = { store, now, isAlive };
  return {
    effects: new Effects(journaled),
    turns: new Turns({ store, values, serde }),
    rewinds: new Rewinds(rewinding),
    control: new RetentionControl(pruning, events),
    names: new Names(store, clock),
    ...{
      events,
      store,
      values,
      serde,
      runs,
      recorder,
      space,
      retention,
      rewinding,
      pruning,
      runNames,
      runStarts,
      checkpointSaves,
      writesSaves,
      seen,
      draining,
    },
  };
}

/** What other modules of this package need beyond a saver's public methods. */
export function internalsFrom(
  { store, recorder, runs, retention, rewinding, draining }: Assembly,
  { logger, encryption, createId, clock, turns, redact, serde }: ResolvedOptions,
): Omit<Internals, "readHead" | "asked"> {
  return {
    store,
    logger,
    encrypted: encryption !== undefined,
    createId,
    clock,
    documentOf: (graph) => attachedGraph(graph, recorder).document(),
    async recordedGraphs(threadId, turns) {
      const id = checkedId(threadId, "thread_id", "recordedGraphs");
      const ids = turns.map((turn) => checkedId(turn.id, "id", "recordedGraphs"));
      return recordedGraphsOf(id, await store.graphsOfTurns(id, ids));
    },
    lastRun: async (threadId) => store.lastRun(checkedId(threadId, "thread_id", "lastRun")),
    reserve: async (threadId) => runs.reserve(threadId),
    claim: async (threadId, claim) => runs.reserve(threadId, claim),
    leaseOf: (threadId) => runs.leaseOf(threadId),
    isStopping: () => draining.begun || !store.isOpen(),
    keepsErrors: turns === "full" && redact === undefined && serde === undefined,
    now: () => clock().getTime(),
    hold: async (threadId) => runs.hold(threadId, false),
    async leftRunsStopped(threadId) {
      const stopped = recorder.left.endOf(threadId);
      if (stopped === undefined) return;
      await stopped;
      await runs.nodesStopped(threadId);
    },
    keepOpen: () => draining.keepOpen(),
    holdRetention: (threadId) => retention?.hold(threadId) ?? (() => undefined),
    rewindToCheckpoint: async (request, undos) =>
      rewound(rewinding, request, async () => {
        const { rewindToCheckpoint } = await import("./rewind/rewind");
        return rewindToCheckpoint(rewinding, request, undos, true);
      }),
    countRewinds: async (threadId, reason) => store.countRewinds(checkedId(threadId, "thread_id", "countRewinds"), reason),
  };
}
