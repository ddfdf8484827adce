import type { RawOf, VERSIONED } from "../tables";
import type { Program } from "../program";
import type { Owner, VerifyContext, Where } from "./verify-context";

/** Of the versions of one thing all but one are superseded, each by the next one. */
export function* checkVersions<T extends (typeof VERSIONED)[number]>(
  ctx: VerifyContext,
  owner: Owner,
  { name: table, versionsOf }: T,
  row: RawOf<T>,
  where: Where,
): Program<void> {
  const same = versionsOf.map((column) => `${column} = ?`).join(" AND ");
  const values = versionsOf.map((column) => (row as Record<string, string | number>)[column] as string | number);
  if (row.superseded_by === null) {
    const newer = yield* ctx.sql.get<{ seq: number }>(
      `SELECT seq FROM ${table} WHERE ${same} AND superseded_by IS NULL AND seq > ? LIMIT 1`,
      ...values,
      row.seq,
    );
    if (newer !== undefined) {
      ctx.problem(
        "superseded",
        owner.threadId,
        where,
        "one version that is not superseded",
        `another one, with seq ${newer.seq}`,
      );
    }
    return;
  }
  const next = yield* ctx.sql.get<{ seq: number | null }>(
    `SELECT min(seq) AS seq FROM ${table} WHERE ${same} AND seq > ?`,
    ...values,
    row.seq,
  );
  if (next?.seq !== row.superseded_by) {
    ctx.problem(
      "superseded",
      owner.threadId,
      where,
      "the next version, which supersedes it",
      `seq ${row.superseded_by}, which is not that`,
    );
  }
}
