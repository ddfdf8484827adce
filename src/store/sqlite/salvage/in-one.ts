import type { SqliteSql } from "../engine";
import type { Program } from "../../program";

/** Runs work, which runs programs of its own, in one transaction. Rows are removed by statements that no program knows of. */
export function inOne<T>(sql: SqliteSql, work: () => T): T {
  // eslint-disable-next-line require-yield -- what is to be done in it runs its own programs, at once
  const program = function* (): Program<T> {
    return work();
  };
  sql.forget();
  try {
    return sql.db.transaction(() => sql.now(sql.transaction(program()))).immediate() as T;
  } finally {
    sql.forget();
  }
}
