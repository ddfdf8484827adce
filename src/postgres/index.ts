export { PostgresTurnSaver, type PostgresTurnSaverOptions } from "./saver";
export { PostgresCheckpointPersister, type PostgresCheckpointPersisterOptions } from "./checkpoint-persister";
export { migrationSql, type PgClient, type PgPool } from "../store/postgres";
