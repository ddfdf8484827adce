import type { TurnSaver } from "../saver";
import type { Turn } from "../turns/types";

/** What a failed node threw, as its Action says; undefined where turns are kept without their content. */
export async function inspectableError(saver: TurnSaver, turn: Turn): Promise<{ name: string; message: string } | undefined> {
  try {
    const { error } = (await saver.turnState(turn)) as { error?: { name?: unknown; message?: unknown } };
    if (error === undefined) return undefined;
    const { name, message } = error;
    return { name: typeof name === "string" ? name : "Error", message: typeof message === "string" ? message : "" };
  } catch {
    return undefined;
  }
}
