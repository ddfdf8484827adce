import { Beginnings, RunNames } from "./run-starts";
import { EffectContent } from "./effects/content";
import { Effects } from "./effects/effects";
import { EffectJournal } from "./effects/journal";
import { SaverEmitter } from "./events";
import type { ResolvedOptions } from "./options";
import { Retention } from "./retention/retention";
import { SpaceKeeper } from "./retention/space";
import { Saving } from "./saving";
import { UserSerde } from "./serde";
import { type DatabaseHandle, openSqliteStore } from "./store/sqlite";
import type { Store } from "./store/store";
import { Draining } from "./turns/draining";
import { isAlive } from "./turns/process-identity";
import { PendingFailures } from "./turns/pending-failures";
import { JOURNAL, TurnRecorder } from "./turns/recorder";
import { SeenCheckpoints } from "./turns/seen-checkpoints";
import { Redaction } from "./turns/redaction";
import { RunRegistry } from "./turns/run-registry";
import { TurnLog } from "./turns/turn-log";
import { Values } from "./values";

export type { DatabaseHandle, NodeSqliteDatabase, NodeSqliteStatement, SqliteDatabase } from "./store/sqlite";

/** What a saver is made of. */
export interface Assembly {
  events: SaverEmitter;
  store: Store;
  values: Values;
  serde: UserSerde | undefined;
  content: EffectContent;
  effects: Effects;
  runs: RunRegistry;
  recorder: TurnRecorder;
  space: SpaceKeeper;
  retention: Retention | undefined;
  names: RunNames;
  beginnings: Beginnings;
  saving: Saving;
  seen: SeenCheckpoints;
  draining: Draining;
}

/** Opens the database and puts a saver together: the one place where every room meets every other. @throws what opening throws */
export function assembled(source: DatabaseHandle | string, options: ResolvedOptions): Assembly {
  const { logger, createId, clock } = options;
  const serde = options.serde && new UserSerde(options.serde);
  const events = new SaverEmitter(logger);
  const store = openSqliteStore(source, options);
  const values = new Values(options, store);
  const draining = new Draining();
  const runs = new RunRegistry({ store, log: logger, createId, clock, draining });
  const failures = new PendingFailures(runs);
  const space = new SpaceKeeper(store, logger, (run) => isAlive(run));
  const now = (): number => clock().getTime();
  const retention = options.retention && new Retention({ store, options: options.retention, now, log: logger, events, space });
  const redaction = new Redaction(options, values, serde, events);
  if (!redaction.recordsTurns) {
    logger.debug({}, 'turns: "off": what is in flight, tokens and the history of turns will not be known');
  }
  const names = new RunNames();
  const namesOf = (threadId: string): ReturnType<RunNames["of"]> => names.of(threadId);
  const seen = new SeenCheckpoints();
  const common = { store, options, events, runs, failures, redaction, seen };
  const recorder = new TurnRecorder(new TurnLog({ ...common, names }), runs.bodies, draining);
  const content = new EffectContent(store, values, serde);
  const journaled = { store, content, options, events };
  recorder[JOURNAL] = new EffectJournal({
    ...journaled,
    attemptOf: (runId, nodeTaskId) => recorder.liveAttemptOf(runId, nodeTaskId),
    namesOf,
  });
  const beginnings = new Beginnings();
  const saving = new Saving({
    ...common,
    values,
    serde,
    beginnings,
    retention,
    recorder,
    names,
    draining,
  });
  const effects = new Effects(journaled);
  return {
    events,
    store,
    values,
    serde,
    content,
    effects,
    runs,
    recorder,
    space,
    retention,
    names,
    beginnings,
    saving,
    seen,
    draining,
  };
}
