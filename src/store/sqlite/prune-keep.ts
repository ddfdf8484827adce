import type { PruneCriteria } from "../store";
import { keyOf, push, rootIdOf, type Stored, type ThreadFacts } from "./prune-rows";
import type { Sql } from "./sql";

/**
 * Which checkpoints stay for their own sake: of the root namespace the newest (by id, as LangGraph looks for it, and by order of saving)
 * and those that satisfy the criteria; of all namespaces named ones, and those on which somebody is asked.
 */
export function keptByCriteria(facts: ThreadFacts, places: Places, criteria: PruneCriteria): Set<string> {
  const kept = new Set<string>();
  for (const [key, stored] of facts.checkpoints) {
    // What is in an archive is not there to be pruned, but may come back.
    if (liveVersion(stored) === undefined && stored.versions.every(({ archived }) => archived !== undefined)) kept.add(key);
    if (!facts.named.has(key) && !facts.asking.has(key)) continue;
    kept.add(key);
    const root = places.rootOf(stored);
    if (facts.asking.has(key) && root !== undefined) kept.add(keyOf("", root.id));
  }
  keepRoots(places.roots, criteria, kept);
  return kept;
}

/**
 * Adds what subgraphs did in the course of the root's checkpoints that stay, and of a graph with a memory of its own also what a run
 * from such a checkpoint would find.
 */
export function keepBelow(places: Places, kept: Set<string>): void {
  for (const [ns, stored] of places.below) {
    if (places.roots.length === 0) for (const { id } of stored) kept.add(keyOf(ns, id));
    else if (isPassing(ns)) keepPassing(places, ns, stored, kept);
    else keepLasting(places, ns, stored, kept);
  }
}

/** Where each checkpoint of a subgraph belongs. */
export interface Places {
  /** Checkpoints of the root namespace, smallest id first. */
  roots: readonly Stored[];
  /** Checkpoints of each other namespace, smallest id first. */
  below: ReadonlyMap<string, readonly Stored[]>;
  /** The checkpoint of the root in whose course this one was made; of the root's own, itself. */
  rootOf(stored: Stored): Stored | undefined;
  /** Whether the checkpoint of the root is there at all. */
  isOrphaned(stored: Stored): boolean;
}

export function placesOf(sql: Sql, facts: ThreadFacts): Places {
  const byId = [...facts.checkpoints.values()].filter(hasRows).toSorted((left, right) => (left.id < right.id ? -1 : 1));
  const roots = byId.filter(({ ns }) => ns === "");
  const below = new Map<string, Stored[]>();
  for (const stored of byId) if (stored.ns !== "") push(below, stored.ns, stored);
  const rootIds = new Map(roots.map((root) => [root.id, root]));
  const noted = new Map<string, string | undefined>();
  const notedRoot = (ns: string): string | undefined => {
    if (!noted.has(ns)) noted.set(ns, rootIdOf(sql, facts.key, (below.get(ns) as Stored[])[0] as Stored));
    return noted.get(ns);
  };
  return {
    roots,
    below,
    isOrphaned: ({ ns }) => isPassing(ns) && !rootIds.has(notedRoot(ns) ?? ""),
    rootOf: (stored) => {
      if (stored.ns === "" || !below.has(stored.ns)) return rootIds.get(stored.id);
      const root = isPassing(stored.ns) ? rootIds.get(notedRoot(stored.ns) ?? "") : undefined;
      // Ids grow with time also where LangGraph saves a subgraph before the root (durability "exit").
      return root ?? roots.findLast(({ id }) => id < stored.id) ?? roots[0];
    },
  };
}

/** A namespace that one task of a node had, and nobody will have again: a segment ends in the task's id. */
function isPassing(ns: string): boolean {
  return ns.includes(":");
}

export function liveVersion({ versions }: Stored): Stored["versions"][number] | undefined {
  return versions.find(({ live }) => live);
}

function hasRows({ versions }: Stored): boolean {
  return versions.some(({ archived }) => archived === undefined);
}

function keepRoots(roots: readonly Stored[], { keepLast, before }: PruneCriteria, kept: Set<string>): void {
  const firstKept = keepLast === undefined ? 0 : Math.max(0, roots.length - keepLast);
  roots.forEach((root, index) => {
    const createdAt = (liveVersion(root) ?? root.versions[0])?.createdAt ?? 0;
    if (index >= firstKept && (before === undefined || createdAt >= before)) kept.add(keyOf("", root.id));
  });
  keepNewest("", roots, kept);
}

function keepNewest(ns: string, stored: readonly Stored[], kept: Set<string>): void {
  const lastSeq = (one: Stored): number => one.versions.at(-1)?.seq ?? 0;
  const bySeq = stored.reduce<Stored | undefined>((top, one) => (top && lastSeq(top) > lastSeq(one) ? top : one), undefined);
  for (const newest of [stored.at(-1), bySeq]) if (newest !== undefined) kept.add(keyOf(ns, newest.id));
}

/** Without its checkpoint of the root it is of use only if that is still to be saved (durability "exit"). */
function keepPassing(places: Places, ns: string, stored: readonly Stored[], kept: Set<string>): void {
  for (const one of stored) {
    const root = places.rootOf(one) as Stored;
    const stays = places.isOrphaned(one) ? root === places.roots.at(-1) : kept.has(keyOf("", root.id));
    if (stays) kept.add(keyOf(ns, one.id));
  }
}

function keepLasting(places: Places, ns: string, stored: readonly Stored[], kept: Set<string>): void {
  keepNewest(ns, stored, kept);
  for (const one of stored) if (kept.has(keyOf("", (places.rootOf(one) as Stored).id))) kept.add(keyOf(ns, one.id));
  for (const { id } of places.roots) {
    const found = kept.has(keyOf("", id)) ? stored.findLast((one) => one.id < id) : undefined;
    if (found !== undefined) kept.add(keyOf(ns, found.id));
  }
}
