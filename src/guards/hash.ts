import { sha256 } from "../sealing/sealing";

/** 132 bits of a SHA-256 in base64url: drift is no attack, and every turn carries one. */
const LENGTH = 22;

/** The hash of anything that JSON can hold, whatever order its keys were given in. */
export function hashOf(value: unknown): string {
  return sha256(canonical(value)).slice(0, LENGTH);
}

/** JSON with sorted keys. */
export function canonical(value: unknown): string {
  return JSON.stringify(value, (_, inner: unknown) => {
    if (typeof inner !== "object" || inner === null || Array.isArray(inner)) return inner;
    const record = inner as Record<string, unknown>;
    return Object.fromEntries(
      Object.keys(record)
        .sort()
        .map((key) => [key, record[key]]),
    );
  });
}
