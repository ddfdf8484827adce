import { hostname } from "node:os";
import { pidIsAlive, thisProcess } from "../turns/process-identity";

/** Who does an effect: `<pid> <host> <start of the process>`. */
export function holderOf(): string {
  const { pid, host, pidStart } = thisProcess();
  return `${pid} ${host} ${pidStart}`;
}

/**
 * Whether another process may still be at it. Of this host the system knows which processes live; of another host nobody does, and
 * after a crash there the effect would be in doubt for ever: it counts as ended.
 */
export function isHeldElsewhere(holder: string): boolean {
  if (holder === holderOf()) return false;
  const [pid = "", host = "", start = ""] = holder.split(" ");
  return host === hostname() && pidIsAlive(Number(pid), start);
}
