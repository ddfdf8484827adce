export {
  importOfficial,
  importOfficialPostgres,
  type PostgresImportOptions,
  type ImportOptions,
  type ImportReport,
} from "./import-official";
export type { ImportedThread, SkippedCheckpoint } from "./import-thread";
