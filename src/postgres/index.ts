export { PostgresTurnSaver, type PostgresTurnSaverOptions } from "./saver";
export { migrationSql, type PgClient, type PgPool } from "../store/postgres";
