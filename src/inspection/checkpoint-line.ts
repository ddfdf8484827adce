import { nodePathOf } from "../guards/graph-document";
import type { CheckpointHead } from "../store/store";
import { numberOf } from "./place";

/** A checkpoint, without its state. */
export interface CheckpointLine {
  checkpointId: string;
  number: number;
  step: number;
  source: string;
  at: string;
  /** The path of the node whose graph it belongs to; null for the outermost graph. */
  inside: string | null;
}

export function lineOf({ checkpointId, ns, position, step, source, createdAt }: CheckpointHead): CheckpointLine {
  const at = new Date(createdAt).toISOString();
  return { checkpointId, number: numberOf(position), step, source, at, inside: ns === "" ? null : nodePathOf(ns) };
}
