import { hasPrisma, POSTGRES_LIBRARIES } from "./tx-postgres";
import { type Library, SQLITE_LIBRARIES } from "./tx-world";

const isPostgres = process.env["TURNS_ENGINE"] === "postgres";

/** The libraries that users reach their database by, with the driver itself first. */
export const LIBRARIES: readonly Library[] = isPostgres ? POSTGRES_LIBRARIES : SQLITE_LIBRARIES;

/** The tests of a library. Those of one that can't be had are skipped, and counted. */
export function describeLibraries(title: string, tests: (library: Library) => void): void {
  for (const library of LIBRARIES) {
    const isThere = library.name !== "Prisma" || hasPrisma();
    (isThere ? describe : describe.skip)(title.replace("$name", library.name), () => tests(library));
  }
}
