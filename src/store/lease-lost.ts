import { TurnsError, describe } from "../errors";
import type { Lease, RunRow } from "./store";

/** @param holder who runs the thread by now */
export function leaseLost({ threadId }: Pick<Lease, "threadId">, holder: RunRow | undefined): TurnsError {
  const by = holder && { pid: holder.pid, host: holder.host, startedAt: holder.startedAt };
  return new TurnsError("LEASE_LOST", {
    what: `a run of thread ${describe(threadId)}`,
    expected: "the thread to be its own still",
    found: by
      ? `process ${by.pid} on ${by.host}, which took it over at ${by.startedAt}`
      : "somebody who took it over, and is done with it by now",
    remedy:
      "Nothing was saved. For too long this run gave no sign of life (its process was stopped, or its machine slept), and it counted as dead. Let it end; what goes on with the thread is the other run.",
    data: { threadId, takenBy: by },
  });
}
