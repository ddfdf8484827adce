import type { CheckpointHead } from "../store/store";
import { numberOf } from "./place";

/** A checkpoint of the outermost graph. */
export interface CheckpointLine {
  checkpointId: string;
  number: number;
  step: number;
  source: string;
  at: string;
}

export function lineOf({ checkpointId, position, step, source, createdAt }: CheckpointHead): CheckpointLine {
  return { checkpointId, number: numberOf(position), step, source, at: new Date(createdAt).toISOString() };
}
