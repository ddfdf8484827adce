/** What every id has to be; for messages. */
export const ID_RULE = "a non-empty string without NUL characters and lone surrogates";

/**
 * Ids are strings that come back from the database as they went in: SQLite ends some functions at a NUL character and stores a lone
 * surrogate as another character, so that two ids could become one.
 */
export function isId(value: unknown): value is string {
  return typeof value === "string" && value !== "" && !value.includes("\0") && value.isWellFormed();
}
