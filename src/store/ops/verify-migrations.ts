import { type Migration, migrationChecksum } from "../migration";
import type { Phase } from "./verify-context";

const APPLIED = "SELECT version, name, applied_at, checksum FROM langgraph_migrations ORDER BY version";

/**
 * Part of `verify`: migrations are identified by number, name and effect. One that was edited after it was applied left another schema.
 *
 * @param ours those of the package, from the first to the newest
 */
export function appliedMigrations(ours: readonly Migration[]): Phase {
  return {
    table: "langgraph_migrations",
    *next(ctx) {
      const rows = yield* ctx.session.all<Migration & { applied_at: string; checksum: string }>(APPLIED);
      const isKnown = rows.every((row, index) => {
        const one = ours[index];
        const isNamed = row.version === one?.version && row.name === one.name;
        return isNamed && row.checksum === migrationChecksum(one, row.applied_at);
      });
      const expected = `the migrations 1 to ${ours.length} as this package has them`;
      if (!isKnown || rows.length !== ours.length) ctx.at().problem("format", expected, "others");
      return false;
    },
  };
}
