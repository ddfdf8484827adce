import { sealedKeyId } from "../../sealing";
import { SETTINGS } from "../tables";
import { type Phase, walk } from "./verify-context";

/** Part of `verify`: each wrapped key has the name of the key that wrapped it. Keys are fully read when a database is opened. */
export function wrappedKeys(): Phase {
  return walk<{ name: string; value: unknown }>({
    table: SETTINGS.name,
    keys: SETTINGS.key,
    columns: "name, value",
    where: "name <> 'threads'",
    limit: 10,
    // eslint-disable-next-line require-yield -- a row tells it
    *check(ctx, { name, value }) {
      const keyId = value instanceof Uint8Array ? sealedKeyId(value) : undefined;
      const found = keyId === undefined ? "none" : `key ${keyId}`;
      if (name !== `key:${keyId}`) ctx.at(undefined, { name }).problem("sealing", "a wrapped key under its own name", found);
    },
  });
}
