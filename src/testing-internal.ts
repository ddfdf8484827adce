/**
 * Internals for the test suites, the tortures and the benchmarks. It isn't a subpath or part of a build, and nothing in `src/`
 * imports it. If you move or rename a module, keep the names here, so that no suite has to change.
 */
import { encode, EXACT, PrivateCopy } from "./codec";

export { INSTANCE_CLASSES } from "./codec/instances";
export {
  ADOPTING,
  chunkAddresses,
  chunkTag,
  copyOf,
  decode,
  encode,
  encodePart,
  encodeParts,
  EXACT,
  isElementwise,
  matches,
  NO_COPY,
  PrivateCopy,
  remade,
  Serialized,
  Tracer,
} from "./codec";
export { decodeOfficial } from "./codec/official";
export { READABLE_TAGS, readerOf } from "./codec/decode";
export type { BackupProgress } from "./backup";
export { definitionNamed, madeEffect, type Undo } from "./effects/define";
export { journaled } from "./effects/effect";
export { checkedEffect } from "./effects/options";
export { TurnsError, type TurnsErrorCode } from "./errors";
export type { DriftEvent, ValidationEvent } from "./events";
export { type Failpoint, type FailpointDetails, setFailpointHandler } from "./failpoints";
export { canonicalSource } from "./guards/canonical-source";
export { withoutNames } from "./guards/canonical-values";
export { compareFingerprints, differenceInWords } from "./guards/compare";
export { fingerprintOf } from "./guards/fingerprint";
export type { Gate, GateOptions, ValidationContext, Validity } from "./guards/gates";
export { type GatesOptions, resolveGates } from "./guards/gates";
export { documentText, type GraphDocument, hashOf, nodePathOf, parseDocument, type Versions } from "./guards/graph-document";
export { normalised } from "./guards/normalise";
export { recordedGraph } from "./guards/compare";
export { validated } from "./guards/gates";
export { shapeOf } from "./guards/source";
export { Changes } from "./follow";
export { internalsOf } from "./internals";
export { withFailure } from "./report/phase-changes";
export { fromInline, fromQuote, toInline, toQuote } from "./report/markdown";
export { parseFile, parseProgress } from "./report/parse";
export { checkedProgress, type Phase, type PhaseTokens, type Progress, type ResumeInfo, sumOf } from "./report/progress";
export { renderInto, renderProgress } from "./report/render";
export type { PrunedEvent } from "./retention/prune";
export { planToPoint, pointOf } from "./rewind/plan";
export { type RewindParts, rewindThread } from "./rewind/rewind";
export { UserSerde } from "./serde";
export {
  createDatabaseSecret,
  encryptedSealing,
  type EncryptionOption,
  encryptionSchema,
  type Identity,
  type KeySet,
  plainSealing,
  type ResolvedKeys,
  resolveKeys,
  sealedKeyId,
  sealedKeyIds,
  type Sealing,
  unlock,
  unwrapSecret,
  wrapSecret,
} from "./sealing";
export { encodeParts as encodeSealedParts } from "./sealing/sealing";
export { sha256 } from "./sealing/sealing";
export type { EffectRow } from "./store/effects";
export { EFFECT_ROWS, type Rows, SNAPSHOT_ROWS, THREAD_ROWS, TURN_ROWS, WRITE_ROWS } from "./store/rows";
export { ALL_TABLES, type Column, type RawOf, type Table, type THREADS } from "./store/tables";
export { ownershipChange, type OwnershipChange } from "./store/ops/thread-rows";
export { taskSpans } from "./store/ownership";
export { Commits } from "./store/sqlite/engine";
export { adapted, openFile } from "./store/sqlite/connection";
export type { NodeSqliteDatabase, SqliteDatabase } from "./store/sqlite/driver";
export { isBusy, meaningOf, sqliteCode, translated } from "./store/sqlite/failures";
export { openSqliteStore, setStoreWrapper, type StoreWrapper } from "./store/sqlite";
export { CommitInDoubt, type Engine as StorageEngine, StaleFacts } from "./store/engine";
export type { Bound, Program, Statement } from "./store/program";
export { LogWatch } from "./store/sqlite/engine";
export { type Migration, migrationChecksum } from "./store/migration";
export { migrate } from "./store/sqlite/migrate";
export { sqliteMigrations } from "./store/sqlite/migrations.generated";
export { NodeDatabase } from "./store/sqlite/node-driver";
export { sqliteCodeName, sqliteFailure } from "./store/sqlite/node-failures";
export { type DriverName, DRIVERS, openDatabase } from "./store/sqlite/open-database";
export { Connection, type PgPool, setRoundTripHook } from "./store/postgres/driver";
export { PostgresEngine } from "./store/postgres/engine";
export { Messages } from "./store/postgres/messages";
export { migrate as migratePostgres } from "./store/postgres/migrate";
export { Translator } from "./store/postgres/translate";
export { fromText, toBound } from "./store/postgres/values";
export { MOVED } from "./store/ops/move-rows";
export { withReferences } from "./store/ops/copied-values";
export type { PackedValue, RewindRow, RunRow, Store, StoredValue, TaskClaim, TokenCounts, TaskRow, TurnRow } from "./store/store";
export { compareWrites } from "./store/writes-order";
export { inheritedFlags } from "./testing/launch";
export { findings, ranAgain } from "./testing/matrix-verdict";
export { setClockOffset } from "./testing/clocks";
export { RunNames } from "./run-config";
export { beginTracing, spanned, Tracing } from "./tracing";
export { pullTaskId } from "./turns/node-task";
export { OpenWork } from "./turns/draining";
export { EarlyOutcomes, SeenCheckpoints } from "./turns/handed-in";
export { BEAT_EXPIRY_MS, isAliveAt, runsOfThisProcess, thisProcess } from "./turns/process-identity";
export { RecorderFace } from "./turns/recorder";
export { RECORDER_NAME, TurnRecorder } from "./turns/recorder";
export { RunRegistry } from "./turns/run-registry";
export { stateOfTurn, withoutBookkeeping } from "./turns/turn";
export { unprinted } from "./turns/recorder";
export { uptime } from "./system";
export { Values } from "./values";
export { type Element, endsOf, Memory, type ThreadMemory } from "./values/memory";
export { weightOf } from "./values/pack";
export { ofThread } from "./viewer/addresses";
export { type Branches, branchesOf } from "./inspection/branches";
export { type Checkup, checkup } from "./inspection/doctor";
export { differencesOf } from "./inspection/differences";
export { plain } from "./inspection/plain";
export type { Match } from "./inspection/search";
export type { OpenQuestion, Standing, ThreadState } from "./inspection/standing";
export { THREAD_STATES } from "./inspection/standing";
export { blameOf, type BlameList, differenceBetween, stateAt, type StateAt, type StateDifference } from "./inspection/states";
export { reportOf, type ThreadReport, verdictWords } from "./inspection/status";
export { timelineOf } from "./inspection/timeline";
export { answersOf, rewindSentence } from "./inspection/answers";
export { inbox, listThreads, type Overview, overview, type ThreadList } from "./inspection/threads";
export { type Sizes, type ThreadChannels, type TokenTotals, tokenTotals } from "./inspection/totals";
export { type AttemptDetails, type EffectLine, logOf, showTurn, type TurnLogPage } from "./inspection/turns";
export { drawn } from "./cli/branches";
export { CHANGES } from "./cli/commands/changes";
export type { RecoveryPlanLine, ResumePlan, RunReport, StuckLine } from "./cli/commands/run";
export { refusalOf, rewindRefusal } from "./inspection/refusal";
export { takeBackCommand } from "./inspection/rewinds";
export { noteOf, settlingCommand } from "./inspection/effects";
export type { RewindLine, TakeBack } from "./inspection/rewinds";
export { table, type Column as TableColumn } from "./cli/look";
export { safe, widthOf } from "./cli/text";
export * as effectFailures from "./effects/failures";
export * as rewindFailures from "./rewind/failures";

/** Whether a save takes a value for the copied one: it is like the copy, or has the same text. */
export function sameAs(copy: unknown, value: unknown): boolean {
  if (PrivateCopy.of(copy)?.isLike(value, EXACT) === true) return true;
  try {
    return encode(copy) === encode(value);
  } catch {
    return false;
  }
}
export { redactedThread } from "./inspection/redacted";
export { Cursors, tellLive } from "./viewer/live";
export { WatchedFile } from "./viewer/watched-file";
export { serve, type Viewer, type ViewerOptions } from "./viewer/server";
export { shellWord, startedAs, turns } from "./inspection/words";
export {
  moreWith,
  passwordNote,
  startedWith,
  startOn,
  toCopy,
  withCommands,
  withoutPassword,
  withoutPasswords,
} from "./cli/place";
export { assembled } from "./cli/program";
export { search } from "./inspection/search";
