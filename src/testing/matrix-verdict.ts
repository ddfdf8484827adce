import { isDeepStrictEqual } from "node:util";
import type { KnownEffect, ReachedPoint, Snapshot } from "./child-protocol";
import type { LedgerEntry } from "./ledger";
import type { ChildRun } from "./run-until-killed";

/**
 * The problems that a kill can reveal.
 * - `repeated-node`: a node task ran again although its Action was durable.
 * - `repeated-effect`: an effect or an undo ran again although it was on record as done.
 * - `repeated-unknown`: an effect that had happened, wasn't on record and isn't idempotent ran again.
 * - `repeated-side-effect`: the ledger has more than after the undisturbed run.
 * - `lost`: the ledger has less, or something that was committed is gone.
 * - `different`: the final state differs from the undisturbed run's.
 * - `failed`: the resume failed.
 */
export type ProblemKind =
  "repeated-node" | "repeated-effect" | "repeated-unknown" | "repeated-side-effect" | "lost" | "different" | "failed";

/** A problem, by its kind and in words. */
export interface Finding {
  kind: ProblemKind;
  what: string;
}

type Compare = (expected: unknown, found: unknown) => boolean;

/** A killed run (unless it never reached the point), and the one that resumed it. */
interface Pair {
  killed: ChildRun;
  resumed: ChildRun;
}

/** Compares what a killed and resumed run did with what an undisturbed one did. */
export function findings(whole: ChildRun, { killed, resumed }: Pair, compare: Compare): Finding[] {
  const { before, after } = resumed;
  if (before === undefined || after === undefined) return [];
  const found = [
    ...repeatedNodes(before, resumed.points),
    ...repeatedEffects(before, killed, resumed.points),
    ...lostCommits(killed.points, resumed.points, before, after),
  ];
  if (resumed.outcome === "in-doubt") return found;
  if (resumed.outcome === "failed") return [...found, { kind: "failed", what: `the resume failed: ${resumed.error?.message}` }];
  found.push(...ledgersCompared(whole, resumed));
  if (resumed.outcome !== whole.outcome) {
    found.push({ kind: "different", what: `the run is ${resumed.outcome}, the uncrashed one is ${whole.outcome}` });
  } else if (!compare(whole.final, resumed.final)) {
    found.push({ kind: "different", what: differenceOf(whole.final, resumed.final) });
  }
  return found;
}

/**
 * The nodes that were running when the process was killed, and ran again. What they do outside of `effect()` may have been done
 * twice, and only the ledger knows. At its own `thought.after` a node has done nothing yet.
 */
export function ranAgain({ killed, resumed }: Pair): string[] {
  const begun = new Map<string, string>();
  for (const { point, nodeTaskId, node } of killed.points.slice(0, -1)) {
    if (point === "thought.after" && nodeTaskId !== undefined && node !== undefined) begun.set(nodeTaskId, node);
  }
  const again = upToRewind(resumed.points).flatMap(({ point, nodeTaskId = "" }) => {
    const node = begun.get(nodeTaskId);
    return point === "thought.before" && node !== undefined ? [node] : [];
  });
  return [...new Set(again)];
}

/** What a rewind removed may happen again. */
function upToRewind(points: readonly ReachedPoint[]): readonly ReachedPoint[] {
  const rewind = points.findIndex(({ point }) => point === "rewind.after");
  return rewind === -1 ? points : points.slice(0, rewind);
}

function repeatedNodes({ durable }: Snapshot, points: readonly ReachedPoint[]): Finding[] {
  const done = new Map(durable.map(({ nodeTaskId, node }) => [nodeTaskId, node]));
  return upToRewind(points).flatMap(({ point, nodeTaskId = "" }) => {
    const node = done.get(nodeTaskId);
    if (point !== "thought.before" || node === undefined) return [];
    return [{ kind: "repeated-node", what: `node ${JSON.stringify(node)} ran again although its Action was durable` }];
  });
}

function repeatedEffects({ effects }: Snapshot, killed: ChildRun, points: readonly ReachedPoint[]): Finding[] {
  const known = new Map(effects.map((effect) => [effect.key, effect]));
  return points.flatMap(({ point, key = "" }): Finding[] => {
    const effect = known.get(key);
    if (effect === undefined) return [];
    const { status, undoStatus } = effect;
    const name = JSON.stringify(effect.name);
    if (point === "undo-body.before" && undoStatus === "done") {
      return [{ kind: "repeated-effect", what: `effect ${name} was undone again although that was on record` }];
    }
    if (point !== "effect-body.before") return [];
    if (status === "done" || status === "failed-for-good") {
      return [{ kind: "repeated-effect", what: `effect ${name} ran again although it was completed` }];
    }
    if (status !== "in-doubt" || effect.idempotent || !hadHappened(effect, killed)) return [];
    return [
      { kind: "repeated-unknown", what: `effect ${name} ran again although it had happened and does not say it is idempotent` },
    ];
  });
}

function hadHappened({ key }: KnownEffect, { points, ledgerEntries }: ChildRun): boolean {
  return (
    points.some((reached) => reached.point === "effect-body.after" && reached.key === key) ||
    ledgerEntries.some((entry) => entry.key === key)
  );
}

/**
 * Commits of the killed run must be there when the resume starts and when it finishes, unless a rewind or the retention removed
 * them.
 */
function lostCommits(
  killed: readonly ReachedPoint[],
  resumed: readonly ReachedPoint[],
  before: Snapshot,
  after: Snapshot,
): Finding[] {
  const isTaken = (points: readonly ReachedPoint[]): boolean =>
    points.some(({ point }) => point === "rewind.within" || point === "prune.within");
  const lost = (what: string, when: string): Finding => ({
    kind: "lost",
    what: `${what} was committed, and is not there ${when}`,
  });
  const found: Finding[] = [];
  if (isTaken(killed)) return found;
  const saved = new Set(before.thoughts.map(({ nodeTaskId }) => nodeTaskId));
  const open = new Set(before.effects.filter(({ status }) => status === "in-doubt").map(({ key }) => key));
  const returned = new Set(killed.flatMap(({ point, key }) => (point === "effect-body.after" && key !== undefined ? [key] : [])));
  for (const { point, nodeTaskId = "", node, key = "", effect } of killed) {
    if (point === "thought.after" && nodeTaskId !== "" && !saved.has(nodeTaskId))
      found.push(lost(`a Thought of node ${node}`, "after the kill"));
    if (point === "effect-outcome.after" && returned.has(key) && open.has(key))
      found.push(lost(`the outcome of effect ${effect}`, "after the kill"));
  }
  if (isTaken(resumed)) return found;
  const kept = new Set(after.durable.map(({ nodeTaskId }) => nodeTaskId));
  for (const { nodeTaskId, node } of before.durable) {
    if (!kept.has(nodeTaskId)) found.push(lost(`the Action of node ${JSON.stringify(node)}`, "at the end"));
  }
  return found;
}

function ledgersCompared(whole: ChildRun, resumed: ChildRun): Finding[] {
  const wanted = counted(whole);
  const found = counted(resumed);
  return [...new Set([...wanted.keys(), ...found.keys()])].flatMap((what): Finding[] => {
    const [once, now] = [wanted.get(what) ?? 0, found.get(what) ?? 0];
    if (now === once) return [];
    const text = `${JSON.stringify(what)} is in the ledger ${times(now)}, after the uncrashed run ${times(once)}`;
    return [{ kind: now > once ? "repeated-side-effect" : "lost", what: text }];
  });
}

const times = (count: number): string => (count === 1 ? "once" : `${count} times`);

/** How often each thing was done. A repetition with the key of an idempotent effect isn't counted. */
function counted({ ledgerEntries, after }: ChildRun): Map<string, number> {
  const idempotent = new Set(after?.effects.filter((effect) => effect.idempotent).map(({ key }) => key));
  const seen = new Set<string>();
  const isRepetition = ({ what, key }: LedgerEntry): boolean => {
    if (key === undefined || !idempotent.has(key)) return false;
    const name = JSON.stringify([key, what]);
    return seen.has(name) || (seen.add(name), false);
  };
  const counts = new Map<string, number>();
  for (const entry of ledgerEntries) if (!isRepetition(entry)) counts.set(entry.what, (counts.get(entry.what) ?? 0) + 1);
  return counts;
}

/** The path of the first difference. Only the path, because the values there may be a user's secret, and long. */
function differenceOf(expected: unknown, found: unknown): string {
  return `the state differs from that of the uncrashed run at ${firstDifference(expected, found, "final")}`;
}

function firstDifference(left: unknown, right: unknown, path: string): string {
  const isBranch = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null;
  if (!isBranch(left) || !isBranch(right) || Object.getPrototypeOf(left) !== Object.getPrototypeOf(right)) return path;
  for (const key of new Set([...Object.keys(left), ...Object.keys(right)])) {
    if (!same(left[key], right[key])) return firstDifference(left[key], right[key], `${path}.${key}`);
  }
  return path;
}

export const same: Compare = isDeepStrictEqual;
