import { withFailure } from "./failure-notes";
import type { Phase, Progress } from "./progress";

/** What a thread tells, with the names and notes that people gave its phases in the file; only the line of a failure is the thread's. */
export function keepingNotes(fresh: Progress, old: Progress): Progress {
  const known = new Map(old.phases.map((phase) => [phase.id, phase]));
  const phases = fresh.phases.map((phase): Phase => {
    const before = known.get(phase.id);
    if (before === undefined) return phase;
    return { ...phase, name: before.name, notes: withFailure(before.notes, phase.notes) };
  });
  return { ...fresh, phases };
}
