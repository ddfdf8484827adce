export { importOfficial, type ImportOptions, type ImportReport } from "./import-official";
export type { ImportedThread } from "./import-thread";
export type { SkippedCheckpoint } from "./import-thread";
