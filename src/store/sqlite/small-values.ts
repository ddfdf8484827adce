import type { NewCheckpoint, NewValue, PackedValue } from "../store";
import type { Sql } from "../session";

/**
 * In an encrypted database no value stands in the manifest, which stays readable for the queries that follow versions: what would
 * be small enough becomes a chunk of its own.
 */
export function withoutInline(sql: Sql, checkpoint: NewCheckpoint): NewCheckpoint {
  const { sealing } = sql;
  if (!sealing.encrypted) return checkpoint;
  const outside = (packed: PackedValue): PackedValue => {
    if (packed.kind !== "inline") return packed;
    const { text } = packed;
    return { kind: "whole", chunk: { address: sealing.address(checkpoint.threadId, text), text: () => text }, parts: [] };
  };
  const values = checkpoint.values.map((value): NewValue => ({
    ...value,
    packed: () => outside(value.packed()),
  }));
  return { ...checkpoint, values };
}
