import type { Rows } from "../rows";
import type { RowOf, Table } from "../tables";
import type { Program } from "../program";
import type { Sql } from "../session";
import type { ThreadKey } from "../thread-state";

/** A new row of a thread, counted in the thread's own. */
export function* insertRow<T extends Table>(sql: Sql, key: ThreadKey, rows: Rows<T>, row: RowOf<T>): Program {
  const { counted }: Table = rows.table;
  if (counted !== undefined) key.count(counted);
  yield* sql.run(rows.insert, ...rows.values(sql.sealing, key, row));
}
