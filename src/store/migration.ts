import { createHash } from "node:crypto";

/** A numbered change of the schema. */
export interface Migration {
  readonly version: number;
  readonly name: string;
  readonly sql: string;
}

/** Covers the applied migration, including its text, and the time. */
export function migrationChecksum({ version, name, sql }: Migration, appliedAt: string): string {
  return createHash("sha256")
    .update(JSON.stringify([version, name, sql, appliedAt]))
    .digest("base64url");
}
