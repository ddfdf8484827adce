import type { Transactions } from "../effects/transactional";
import { checkedHandle, Completions, type DialectOptions, numbered, type Row, type Value } from "./completions";

/** What is needed of a Prisma client and of its transactions. */
interface PrismaQueries {
  $queryRawUnsafe(sql: string, ...values: Value[]): PromiseLike<unknown>;
  $executeRawUnsafe(sql: string): PromiseLike<number>;
}
interface PrismaDatabase<Tx> extends PrismaQueries {
  $transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>;
}

/**
 * Transactions by Prisma, on PostgreSQL or SQLite. `run` gets the `TransactionClient`. Prisma ends a transaction after five
 * seconds, unless the client was made with other `transactionOptions`.
 *
 * @throws {TurnsError} INVALID_OPTION
 */
export function prismaTransactions<Tx extends PrismaQueries>(
  client: PrismaDatabase<Tx>,
  options: DialectOptions = {},
): Transactions<Tx> {
  checkedHandle("prismaTransactions", client, ["$transaction", "$queryRawUnsafe"], "a PrismaClient");
  const { dialect = "postgres" } = options;
  const query = async (tx: Tx | undefined, sql: string, values: readonly Value[]): Promise<Row[]> => {
    const text = dialect === "postgres" ? numbered(sql) : sql;
    if (!text.startsWith("CREATE")) return (await (tx ?? client).$queryRawUnsafe(text, ...values)) as Row[];
    await (tx ?? client).$executeRawUnsafe(text);
    return [];
  };
  const transaction = <T>(work: (tx: Tx) => T | Promise<T>): Promise<T> => client.$transaction(async (tx) => work(tx));
  return new Completions({ dialect, isSync: false, transaction, query }, options);
}
