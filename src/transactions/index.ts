// The entry `/transactions`: adapters for effects that do their work in a transaction of your database. They know the libraries by
// the shape of what you pass, so importing this loads none of them.
export { drizzleTransactions } from "./drizzle";
export { knexTransactions } from "./knex";
export { kyselyTransactions } from "./kysely";
export { pgTransactions } from "./pg";
export { prismaTransactions } from "./prisma";
export { sqliteTransactions } from "./sqlite";
export type { DialectOptions, TransactionsOptions } from "./completions";
export type { Transactions } from "../effects/transactional";
export type { EffectTry } from "../effects/types";
