import type { Program } from "./sql";
import type { Owner, VerifyContext, Where } from "./verify-context";

interface Versioned {
  seq: number;
  thread: number;
  superseded_by: number | null;
}

/** Of the rows with one key all but one are superseded, each by the next one. @param key columns, with the thread */
export function* checkVersions<R extends Versioned>(
  ctx: VerifyContext,
  owner: Owner,
  table: string,
  key: readonly (keyof R & string)[],
  row: R,
  where: Where,
): Program<void> {
  const same = ["thread", ...key].map((column) => `${column} = ?`).join(" AND ");
  const values = [row.thread, ...key.map((column) => row[column] as string | number)];
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
