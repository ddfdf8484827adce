export { importOfficial, type ImportOptions, type ImportReport } from "./import-official";
export type { ImportedThread, SkippedCheckpoint } from "./import-thread";
