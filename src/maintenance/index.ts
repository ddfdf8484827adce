export {
  moveAllThreads,
  type MoveAllOptions,
  type MovedThread,
  type MoveOptions,
  type MoveProgress,
  type MoveReport,
  moveThread,
} from "./move-threads";
export { rotateKeys, type RotationReport } from "./rotate-keys";
export { type DamagedThread, type LostItem, salvage, type SalvageOptions, type SalvageReport } from "./salvage";
export { vacuum, type VacuumReport } from "./vacuum";
