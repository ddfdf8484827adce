import type { TurnSaver } from "../saver";
import type { Turn } from "../turns/turn";

/** Why a node failed: what its gate found, or what it threw, as its Action says; undefined where turns are kept without their content. */
export async function inspectableError(saver: TurnSaver, turn: Turn): Promise<{ name: string; message: string } | undefined> {
  const refused = turn.validation;
  if (refused?.verdict === "failed") {
    const { confidence, minConfidence, reason } = refused;
    const why = reason === undefined ? "" : `: ${reason}`;
    return { name: "ValidationFailedError", message: `confidence ${confidence}, at least ${minConfidence} was wanted${why}` };
  }
  try {
    const { error } = (await saver.turnState(turn)) as { error?: { name?: unknown; message?: unknown } };
    if (error === undefined) return undefined;
    const { name, message } = error;
    return { name: typeof name === "string" ? name : "Error", message: typeof message === "string" ? message : "" };
  } catch {
    return undefined;
  }
}
