import type { Checkpoint, CheckpointMetadata, ChannelVersions, PendingWrite } from "@langchain/langgraph-checkpoint";
import { describe, TurnsError } from "./errors";
import { ID_RULE, isId } from "./ids";

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/**
 * Checks what is saved as far as saving reads it, so that a caller without types learns what is wrong.
 *
 * @throws {TurnsError} INVALID_CHECKPOINT naming the first argument or field that is wrong
 */
export function refuseMalformed(
  checkpoint: Checkpoint,
  metadata: CheckpointMetadata,
  newVersions: ChannelVersions | undefined,
): void {
  // Savers that keep the whole state don't need it, and wrappers written for them leave it out.
  const parts: Record<string, unknown> = { checkpoint, metadata, ...(newVersions === undefined ? {} : { newVersions }) };
  if (isRecord(checkpoint)) {
    parts["checkpoint.channel_values"] = checkpoint.channel_values;
    parts["checkpoint.channel_versions"] = checkpoint.channel_versions;
  }
  const wrong = Object.keys(parts).find((name) => !isRecord(parts[name]));
  if (wrong !== undefined) throw malformed(`${wrong} to save`, "an object", parts[wrong], wrong);
  refuseUnreadable(checkpoint, metadata);
}

/** What the database would keep as something else, or give back as no checkpoint. */
function refuseUnreadable(
  { v, ts, versions_seen: seen, channel_versions: versions }: Checkpoint,
  metadata: CheckpointMetadata,
): void {
  const refuse = (field: string, isRight: boolean, expected: string, found: unknown): void => {
    if (!isRight) throw malformed(`${field} to save`, expected, found, field);
  };
  const { source, step } = metadata as { source: unknown; step: unknown };
  refuse("checkpoint.v", Number.isFinite(v), "a number", v);
  refuse("checkpoint.ts", typeof (ts ?? "") === "string", "a text", ts);
  refuse(
    "checkpoint.versions_seen",
    isRecord(seen ?? {}) && Object.values(seen ?? {}).every(isRecord),
    "an object of objects",
    seen,
  );
  const odd = Object.entries(versions).find(([, version]) => typeof version !== "string" && !Number.isFinite(version));
  refuse(`checkpoint.channel_versions.${odd?.[0] ?? ""}`, odd === undefined, "a number or a text", odd?.[1]);
  refuse("metadata.source", isId(source), ID_RULE, source);
  refuse("metadata.step", Number.isSafeInteger(step), "a whole number", step);
}

/** @throws {TurnsError} INVALID_CHECKPOINT unless these are pairs of a channel and a value */
export function refuseNoWrites(writes: PendingWrite[]): void {
  if (!Array.isArray(writes)) throw malformed("writes to save", "an array of [channel, value]", writes, "writes");
  const index = writes.findIndex((write: unknown) => !Array.isArray(write) || typeof write[0] !== "string");
  if (index !== -1) throw malformed(`writes.${index} to save`, "a pair [channel, value]", writes[index], `writes.${index}`);
}

function malformed(what: string, expected: string, found: unknown, field: string): TurnsError {
  return new TurnsError("INVALID_CHECKPOINT", {
    what,
    expected,
    found: describe(found),
    remedy: "Pass what LangGraph passes. Nothing was saved.",
    data: { field },
  });
}
