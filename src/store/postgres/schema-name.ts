import { describe, TurnsError } from "../../errors";

/** PostgreSQL cuts longer names. */
const NAME_BYTES = 63;
// eslint-disable-next-line no-control-regex -- a name travels as it is, but values that are compared with it are escaped: see values.ts
const IS_OURS = /^(?!pg_)[^\u0000\u0001]+$/;

export const SCHEMA_RULE = `a name of 1 to ${NAME_BYTES} bytes that doesn't begin with pg_, without U+0000, U+0001 and lone surrogates`;

/** Whether the server takes a name for a schema of ours, as it is. */
export function isSchemaName(value: unknown): value is string {
  return typeof value === "string" && IS_OURS.test(value) && value.isWellFormed() && Buffer.byteLength(value) <= NAME_BYTES;
}

/** @throws {TurnsError} INVALID_OPTION */
export function checkSchemaName(schema: unknown): void {
  if (isSchemaName(schema)) return;
  throw new TurnsError("INVALID_OPTION", {
    problem: `The schema ${describe(schema)} isn't ${SCHEMA_RULE}.`,
    remedy: 'Give another one, for instance "turns".',
    data: { option: "schema" },
  });
}
