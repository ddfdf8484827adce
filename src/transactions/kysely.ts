import type { Transactions } from "../effects/transactional";
import { checkedHandle, Completions, type DialectOptions, numbered, type Row, type Value } from "./completions";

/** What is needed of Kysely and of its transactions. */
interface KyselyQueries {
  executeQuery(query: KyselyQuery): Promise<{ rows: unknown[] }>;
}
interface KyselyDatabase<Trx> extends KyselyQueries {
  transaction(): { execute<T>(work: (trx: Trx) => Promise<T>): Promise<T> };
}
/** What `CompiledQuery.raw` of Kysely makes. */
interface KyselyQuery {
  readonly sql: string;
  readonly parameters: readonly unknown[];
  readonly query: { readonly kind: "RawNode"; readonly sqlFragments: readonly string[]; readonly parameters: readonly never[] };
  readonly queryId: { readonly queryId: string };
}

/** Transactions by Kysely, on PostgreSQL or SQLite. `run` gets the `Transaction`. @throws {TurnsError} INVALID_OPTION */
export function kyselyTransactions<Trx extends KyselyQueries>(
  db: KyselyDatabase<Trx>,
  options: DialectOptions = {},
): Transactions<Trx> {
  checkedHandle("kyselyTransactions", db, ["transaction", "executeQuery"], "an instance of Kysely");
  const { dialect = "postgres" } = options;
  const query = async (trx: Trx | undefined, text: string, values: readonly Value[]): Promise<Row[]> => {
    const sql = dialect === "postgres" ? numbered(text) : text;
    const raw = { kind: "RawNode", sqlFragments: [sql], parameters: [] } as const;
    const { rows } = await (trx ?? db).executeQuery({ sql, parameters: values, query: raw, queryId: { queryId: "completions" } });
    return rows as Row[];
  };
  const transaction = <T>(work: (trx: Trx) => T | Promise<T>): Promise<T> => db.transaction().execute(async (trx) => work(trx));
  return new Completions({ dialect, isSync: false, transaction, query }, options);
}
