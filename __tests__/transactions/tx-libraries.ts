import { hasPrisma, POSTGRES_LIBRARIES } from "./tx-postgres";
import { type Library, SQLITE_LIBRARIES } from "./tx-world";

const isPostgres = process.env["TURNS_ENGINE"] === "postgres";

/** The libraries that users reach their database by, with the driver itself first. */
export const LIBRARIES: readonly Library[] = isPostgres ? POSTGRES_LIBRARIES : SQLITE_LIBRARIES;

/** The `test` of a library. If that can't be had, its tests are skipped, and counted. */
export const testOf = ({ name }: Library): typeof test => (name !== "Prisma" || hasPrisma() ? test : test.skip);
