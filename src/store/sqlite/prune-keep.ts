import type { PruneCriteria } from "../store";
import { keyOf, push, rootIdOf, type Stored, type ThreadFacts } from "./prune-rows";
import type { Program } from "../program";
import type { Sql } from "../session";

/**
 * Which checkpoints stay for their own sake: of the root namespace the newest (first saved last, and saved last)
 * and those that satisfy the criteria; of all namespaces named ones, and those on which somebody is asked.
 */
export function* keptByCriteria(facts: ThreadFacts, places: Places, criteria: PruneCriteria): Program<Set<string>> {
  const kept = new Set<string>();
  for (const [key, stored] of facts.checkpoints) {
    // What is in an archive is not there to be pruned, but may come back.
    if (liveVersion(stored) === undefined && stored.versions.every(({ archived }) => archived !== undefined)) kept.add(key);
    if (!facts.named.has(key) && !facts.asking.has(key)) continue;
    kept.add(key);
    const root = yield* places.rootOf(stored);
    if (facts.asking.has(key) && root !== undefined) kept.add(keyOf("", root.id));
  }
  keepRoots(places.roots, criteria, kept);
  return kept;
}

/**
 * Adds what subgraphs did in the course of the root's checkpoints that stay, and of a graph with a memory of its own also what a run
 * from such a checkpoint would find.
 */
export function* keepBelow(places: Places, kept: Set<string>): Program {
  for (const [ns, stored] of places.below) {
    if (places.roots.length === 0) for (const { id } of stored) kept.add(keyOf(ns, id));
    else if (isPassing(ns)) yield* keepPassing(places, ns, stored, kept);
    else yield* keepLasting(places, ns, stored, kept);
  }
}

/** Where each checkpoint of a subgraph belongs. */
export interface Places {
  /** Checkpoints of the root namespace, oldest first. */
  roots: readonly Stored[];
  /** Checkpoints of each other namespace, oldest first. */
  below: ReadonlyMap<string, readonly Stored[]>;
  /** The checkpoint of the root in whose course this one was made; of the root's own, itself. */
  rootOf(stored: Stored): Program<Stored | undefined>;
  /** Whether the checkpoint of the root is there at all. */
  isOrphaned(stored: Stored): Program<boolean>;
}

export function* placesOf(sql: Sql, facts: ThreadFacts): Program<Places> {
  const inOrder = [...facts.checkpoints.values()].filter(hasRows).toSorted((left, right) => left.position - right.position);
  const roots = inOrder.filter(({ ns }) => ns === "");
  const below = new Map<string, Stored[]>();
  for (const stored of inOrder) if (stored.ns !== "") push(below, stored.ns, stored);
  const rootIds = new Map(roots.map((root) => [root.id, root]));
  const noted = new Map<string, string | undefined>();
  const earlyRoots = yield* savedBeforeRoots(sql, facts, roots, below);
  const notedRoot = function* (ns: string): Program<string | undefined> {
    if (!noted.has(ns)) noted.set(ns, yield* rootIdOf(sql, facts.key, (below.get(ns) as Stored[])[0] as Stored));
    return noted.get(ns);
  };
  return {
    roots,
    below,
    *isOrphaned({ ns }) {
      return isPassing(ns) && !rootIds.has((yield* notedRoot(ns)) ?? "");
    },
    *rootOf(stored) {
      if (stored.ns === "" || !below.has(stored.ns)) return rootIds.get(stored.id);
      const root = isPassing(stored.ns) ? rootIds.get((yield* notedRoot(stored.ns)) ?? "") : earlyRoots.get(stored);
      return root ?? roots.findLast(({ position }) => position < stored.position) ?? roots[0];
    },
  };
}

/**
 * With durability "exit" LangGraph saves what a subgraph did before the checkpoint of the root in whose course it was. In a namespace that
 * lasts these are the last ones before such a root, and say so themselves. @returns their roots
 */
function* savedBeforeRoots(
  sql: Sql,
  facts: ThreadFacts,
  roots: readonly Stored[],
  below: ReadonlyMap<string, readonly Stored[]>,
): Program<ReadonlyMap<Stored, Stored>> {
  const found = new Map<Stored, Stored>();
  for (const [ns, stored] of below) {
    if (isPassing(ns)) continue;
    let at = stored.length - 1;
    for (const [index, root] of [...roots.entries()].toReversed()) {
      while (at >= 0 && (stored[at] as Stored).position > root.position) at -= 1;
      const since = roots[index - 1]?.position ?? 0;
      for (; at >= 0 && (stored[at] as Stored).position > since; at -= 1) {
        const one = stored[at] as Stored;
        if ((yield* rootIdOf(sql, facts.key, one)) !== root.id) break;
        found.set(one, root);
      }
    }
  }
  return found;
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

/** No checkpoint is older than one that was saved before it, whatever the clock said when it was saved. */
function keepRoots(roots: readonly Stored[], { keepLast, before }: PruneCriteria, kept: Set<string>): void {
  const firstKept = keepLast === undefined ? 0 : Math.max(0, roots.length - keepLast);
  let youngest = 0;
  roots.forEach((root, index) => {
    youngest = Math.max(youngest, (liveVersion(root) ?? root.versions[0])?.createdAt ?? 0);
    if (index >= firstKept && (before === undefined || youngest >= before)) kept.add(keyOf("", root.id));
  });
  keepNewest("", roots, kept);
}

function keepNewest(ns: string, stored: readonly Stored[], kept: Set<string>): void {
  const lastSeq = (one: Stored): number => one.versions.at(-1)?.seq ?? 0;
  const bySeq = stored.reduce<Stored | undefined>((top, one) => (top && lastSeq(top) > lastSeq(one) ? top : one), undefined);
  for (const newest of [stored.at(-1), bySeq]) if (newest !== undefined) kept.add(keyOf(ns, newest.id));
}

/** Without its checkpoint of the root it is of use only if that is still to be saved (durability "exit"). */
function* keepPassing(places: Places, ns: string, stored: readonly Stored[], kept: Set<string>): Program {
  for (const one of stored) {
    const root = (yield* places.rootOf(one)) as Stored;
    const stays = (yield* places.isOrphaned(one)) ? root === places.roots.at(-1) : kept.has(keyOf("", root.id));
    if (stays) kept.add(keyOf(ns, one.id));
  }
}

function* keepLasting(places: Places, ns: string, stored: readonly Stored[], kept: Set<string>): Program {
  keepNewest(ns, stored, kept);
  for (const one of stored) {
    if (kept.has(keyOf("", ((yield* places.rootOf(one)) as Stored).id))) kept.add(keyOf(ns, one.id));
  }
  for (const root of places.roots) {
    if (!kept.has(keyOf("", root.id))) continue;
    for (const one of stored.toReversed()) {
      if (one.position >= root.position || (yield* places.rootOf(one)) === root) continue;
      kept.add(keyOf(ns, one.id));
      break;
    }
  }
}
