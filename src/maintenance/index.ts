// Types of recovery, to be named: the root has those that most programs name.
export type { FailedRecovery, RecoveriesOptions, RecoverOptions, RecoverReport, SkippedThread } from "../runner/recover";
export type { StuckThread } from "../turns/stuck";
export {
  type CopyOptions,
  copyThreadTo,
  moveAllThreads,
  type MoveAllOptions,
  type MovedThread,
  type MoveOptions,
  type MoveProgress,
  type MoveReport,
  moveThread,
} from "./move-threads";
export { rotateKeys, type RotationOptions, type RotationReport } from "./rotate-keys";
export { type DamagedThread, type LostItem, salvage, type SalvageOptions, type SalvageReport } from "./salvage";
export { vacuum, type VacuumReport } from "./vacuum";
