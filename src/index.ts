export { type DatabaseHandle, type NodeSqliteDatabase, type NodeSqliteStatement, type SqliteDatabase, TurnSaver } from "./saver";
export {
  GraphRunner,
  type GraphRunnerOptions,
  type NodeOptions,
  type LangGraphConfig,
  type NodeOutcome,
  type Result,
  type ResumeOptions,
  type RunnableGraph,
  type RunOptions,
  type ThreadStatus,
} from "./graph-runner";
export { CheckpointPersister } from "./turns/checkpoint-persister";
export { effect } from "./effects/effect";
export type { EffectOptions, ErrorOutcome } from "./effects/options";
export type { Effect } from "./effects/types";
export type { EffectDetails, EffectResolution, Effects } from "./effects/effects";
export { TurnsError, type TurnsErrorCode, type TurnsErrorDetails } from "./errors";
export type { TurnSaverOptions } from "./options";
export type { DrainOptions, DrainReport } from "./drain";
export type { BackupOptions, BackupProgress, BackupReport } from "./backup";
export type { VerifyProgress, VerifyReport, VerifyRequest } from "./integrity/verify";
export type { IntegrityProblem, ProblemKind, VerifyCounts } from "./store/integrity";
export type { RotationReport } from "./rotate-keys";
export type { EncryptionOption, KeyInput, KeyProvider, KeySet } from "./sealing";
export type { Logger } from "./logger";
export type { DriftEvent, EffectEvent, SaverEmitter, SaverEvents, ValidationEvent } from "./events";
export type { LangGraphCheckpoint, Turn } from "./turns/turn";
export type { PrunedEvent, PruneReport, PruneRequest } from "./retention/prune";
export type { RunDeletionReport } from "./retention/prune";
export type { NamedCheckpoint, NameRequest } from "./retention/names";
export type { VacuumReport } from "./retention/space";
export type { FinishRequest, RewindReport, RewindRequest } from "./rewind/plan";
export type { CompensationReport, EffectSummary, RewindEffects, UndoVerdict } from "./rewind/plan";
export type { Undo, UndoCall, Undos } from "./rewind/undos";
export type { UndoStatus } from "./store/effects";
export type {
  PruneCounts,
  ResealCounts,
  RewindCounts,
  RewindRow,
  RunRow,
  ThreadRow,
  TokenCounts,
  TurnStatus,
  TurnType,
} from "./store/store";
export type { TurnToRedact } from "./options";
export type { Tokens, TokenUsage } from "./turns/tokens";
export type { TaskSpan } from "./store/ownership";
export { CheckpointFile, type CheckpointFileOptions } from "./report/checkpoint-file";
export type { FollowedSaver, FollowOptions, ProgressFollower } from "./report/follow";
export type { FromThreadOptions, ProgressSource } from "./report/from-thread";
export type { PhaseChange } from "./report/phase-changes";
export type { Phase, PhaseStatus, PhaseTokens, Progress, ResumeInfo } from "./report/progress";
export type { ResumePoint } from "./report/progress";
export type { AttachOptions } from "./turns/attach";
export type { GraphDifference, NodeChange } from "./guards/compare";
export type { ChannelFingerprint } from "./guards/fingerprint";
export type { GraphDocument, NodeFingerprint, Versions } from "./guards/fingerprint";
export type {
  GateDefaults,
  GateOptions,
  OnFailure,
  Recommendation,
  ValidationContext,
  Validator,
  Validity,
} from "./guards/gates";
export type { GatesOptions } from "./guards/gates";
export type { Validation } from "./guards/gates";
