// The public API: six values, and the types their signatures need. `npm run api` records it in etc/, so every change shows in
// review.
export { TurnSaver } from "./saver";
export type { DatabaseHandle } from "./saver";
export type { TurnSaverOptions, TurnToRedact } from "./options";
export type { EncryptionOption, KeyProvider } from "./sealing";
export type { Logger } from "./logger";
export type { AttachOptions } from "./turns/attach";
export type { EffectEvent, SaverEvents } from "./events";
export type { Change } from "./store/changes";
export type { Page } from "./page";
export type { ThreadSummary } from "./threads";
export type { Turn } from "./turns/turn";
export type { Task } from "./turns/turns";
export type { TokenUsage } from "./turns/tokens";
export type { RewindReport, RewindRequest } from "./rewind/plan";
export type { Rewind } from "./rewind/rewinds";
export type { PruneReport, PruneRequest } from "./retention/prune";
export type { NamedCheckpoint } from "./retention/names";
export type { VerifyReport, VerifyRequest } from "./integrity/verify";
export type { BackupOptions, BackupReport } from "./backup";
export type { DrainReport } from "./drain";

export { GraphRunner } from "./graph-runner";
export type {
  GraphRunnerOptions,
  NodeOptions,
  ResumeOptions,
  RunnableGraph,
  RunOptions,
  ThreadStatus,
  WaitingInterrupt,
} from "./graph-runner";
export type { Validation, Validator } from "./guards/gates";

export { effect } from "./effects/effect";
export { defineEffect, type DefinedEffect, type EffectDefinition, type UndoCall } from "./effects/define";
export type { EffectOptions } from "./effects/options";
export type { Effect } from "./effects/types";
export type { EffectDetails, EffectResolution } from "./effects/effects";
export type { Undos } from "./rewind/undos";

export { CheckpointPersister } from "./turns/checkpoint-persister";
export type { LangGraphCheckpoint } from "./turns/turn";

export { TurnsError, type TurnsErrorCode } from "./errors";
