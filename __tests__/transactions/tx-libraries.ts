import { hasPrisma, POSTGRES_LIBRARIES } from "./tx-postgres";
import { type Library, SQLITE_LIBRARIES } from "./tx-world";

const isPostgres = process.env["TURNS_ENGINE"] === "postgres";
const isThere = ({ name }: Library): boolean => name !== "Prisma" || hasPrisma();

/** The libraries that users reach their database by, with the driver itself first. */
export const LIBRARIES: readonly Library[] = isPostgres ? POSTGRES_LIBRARIES.filter(isThere) : SQLITE_LIBRARIES;
