import { TurnsError } from "../errors";

/** What a checkpoint that cannot be read is refused with. */
export function isUnreadable(error: unknown): error is TurnsError {
  return (["CHECKPOINT_CORRUPTED", "UNDECODABLE_VALUE", "CHECKPOINT_UNREADABLE"] as const).some((code) =>
    TurnsError.is(error, code),
  );
}

export const UNREADABLE = Symbol("unreadable");

export async function orUnreadable<T>(read: () => Promise<T>): Promise<T | typeof UNREADABLE> {
  try {
    return await read();
  } catch (error) {
    if (!isUnreadable(error)) throw error;
    return UNREADABLE;
  }
}
