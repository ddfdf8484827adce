import { z } from "zod";
import { TurnsError } from "../errors";
import { ID_RULE, isId } from "../ids";
import { checkedOptions } from "../options";
import type { PruneCounts } from "../store/store";

/** What to prune. At least one of `keepLast`, `maxAgeMs` and `idleMs` is needed; a checkpoint goes if any of them says so. */
export interface PruneRequest {
  /** Default: all threads. */
  threadId?: string;
  /** How many of the newest checkpoints of a thread's root namespace stay; at least 1. */
  keepLast?: number;
  /** Checkpoints that were saved longer ago go, except for the newest; milliseconds. */
  maxAgeMs?: number;
  /** Threads on which nothing was saved for that long, and nobody is at work, are deleted whole; milliseconds. */
  idleMs?: number;
  /** Only count what would go. */
  dryRun?: boolean;
  /** How many checkpoints go in one transaction; the event loop runs on between two. Default 500. */
  batchSize?: number;
  /** Ends the work between two batches; what went is gone, and another call goes on. */
  signal?: AbortSignal;
}

export interface PruneReport extends PruneCounts {
  /** How many threads something went from, those deleted whole among them. */
  threads: number;
  deletedThreads: readonly string[];
  /** Threads that could not be pruned, when all were asked for. */
  failed: readonly { threadId: string; error: unknown }[];
  /** By how much the database got smaller on disk, its write-ahead log included. */
  bytesFreed: number;
  dryRun: boolean;
  /** Whether all of it was done; false if the signal ended it. */
  done: boolean;
}

/** What the event `pruned` tells, whatever brought it about. */
export interface PrunedEvent extends PruneCounts {
  by: "prune" | "deleteForRuns" | "retention";
  /** How many threads were gone through: of a prune those that something went from, those deleted whole among them. */
  threads: number;
  deletedThreads: readonly string[];
  failed: readonly { threadId: string; error: unknown }[];
  /** As in the {@link PruneReport}. The option `retention` cannot tell: free pages are given back later. */
  bytesFreed?: number;
  done: boolean;
}

export type CheckedPrune = PruneRequest & { dryRun: boolean; batchSize: number };

const milliseconds = z.number().int().min(0);
const schema = z.strictObject({
  threadId: z.custom<string>(isId, ID_RULE).optional(),
  keepLast: z.number().int().min(1).optional(),
  maxAgeMs: milliseconds.optional(),
  idleMs: milliseconds.optional(),
  dryRun: z.boolean().default(false),
  batchSize: z.number().int().min(1).max(100_000).default(500),
  signal: z.custom<AbortSignal>((value) => value instanceof AbortSignal, "must be an AbortSignal").optional(),
});

/** @throws {TurnsError} INVALID_OPTION naming what is wrong */
export function checkedPrune(request: PruneRequest): CheckedPrune {
  const checked = checkedOptions(schema, request);
  if (checked.keepLast !== undefined || checked.maxAgeMs !== undefined || checked.idleMs !== undefined) return checked;
  throw new TurnsError("INVALID_OPTION", {
    what: "pruning",
    expected: "at least one of keepLast, maxAgeMs and idleMs",
    found: "none of them",
    remedy: "Say what may go. Nothing was deleted.",
  });
}
