import { decode } from "../../codec";
import { push } from "../../push";
import { SETTLED_AS_HISTORY } from "../effects";
import type { Program } from "../program";
import { taskSpans } from "../ownership";
import { SNAPSHOT_ROWS, TASK_ROWS } from "../rows";
import type { Session } from "../session";
import type { PruneCriteria } from "../store";
import type { RawOf, TASKS } from "../tables";
import type { ThreadState } from "../thread-state";
import { type Manifest, parseManifest, type RawSnapshot } from "./heads";
import { keyOf, liveOrNewest, liveVersion, type PruneFacts, type Stored, type Version } from "./prune-facts";

const BY_SEQ = SNAPSHOT_ROWS.select("WHERE seq = ?");
const MANIFEST = "SELECT channels FROM langgraph_snapshots WHERE seq = ?";
/** On any thread: a node may run a graph on another thread, and its effects belong to this checkpoint too. */
const HAS_EFFECTS = `SELECT 1 FROM langgraph_threads AS t CROSS JOIN langgraph_effects AS e
  WHERE e.thread = t.thread AND e.anchor = ? AND e.status <> 'failed' AND e.undo_status IS DISTINCT FROM 'done'
    AND e.settled_by IS DISTINCT FROM '${SETTLED_AS_HISTORY}' LIMIT 1`;
/** LangGraph's own channels. They are emptied when they are read, and are never delta channels. */
const OWN_CHANNEL = /^(__|branch:|join:)/;

/**
 * The checkpoints that stay for their own sake. In the root namespace: the newest (first saved last, and saved last) and those
 * that satisfy the criteria. In all namespaces: named ones, and those with an unanswered question.
 */
export function* keptByCriteria(
  session: Session,
  facts: PruneFacts,
  places: Places,
  criteria: PruneCriteria,
): Program<Set<string>> {
  const kept = new Set<string>();
  for (const [key, stored] of facts.checkpoints) {
    // An archived checkpoint can't be pruned here, but may be restored.
    if (liveVersion(stored) === undefined && stored.versions.every(({ archived }) => archived !== undefined)) kept.add(key);
    if (!facts.named.has(key) && !facts.asking.has(key)) continue;
    kept.add(key);
    const root = yield* places.rootOf(stored);
    if (facts.asking.has(key) && root !== undefined) kept.add(keyOf("", root.id));
  }
  const firstSeq = criteria.keepTasks === undefined ? undefined : yield* beginningOfTasks(session, facts, criteria.keepTasks);
  keepRoots(places.roots, criteria, firstSeq, kept);
  return kept;
}

/**
 * Adds the checkpoints of subgraphs that belong to kept root checkpoints. For a graph with its own memory, it also adds what a
 * run from such a checkpoint would find.
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
  /** The root checkpoint during which this one was made; a root checkpoint belongs to itself. */
  rootOf(stored: Stored): Program<Stored | undefined>;
  /** Whether its root checkpoint doesn't exist. */
  isOrphaned(stored: Stored): Program<boolean>;
}

export function* placesOf(session: Session, facts: PruneFacts): Program<Places> {
  const inOrder = [...facts.checkpoints.values()].filter(hasRows).toSorted((left, right) => left.position - right.position);
  const roots = inOrder.filter(({ ns }) => ns === "");
  const below = new Map<string, Stored[]>();
  for (const stored of inOrder) if (stored.ns !== "") push(below, stored.ns, stored);
  const rootIds = new Map(roots.map((root) => [root.id, root]));
  const noted = new Map<string, string | undefined>();
  const earlyRoots = yield* savedBeforeRoots(session, facts, roots, rootIds, below);
  const notedRoot = function* (ns: string): Program<string | undefined> {
    // In a namespace that a rewind archived as a whole, no row is left that names the root.
    const first = below.get(ns)?.[0];
    if (first !== undefined && !noted.has(ns)) noted.set(ns, yield* rootIdOf(session, facts.key, first));
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
 * A subgraph's checkpoint may be saved before the root checkpoint that it belongs to, and even before earlier root checkpoints.
 * This happens with durability "exit", and where nodes continue while the root waits for a save. In a lasting namespace these are
 * the last ones before a root, and they name their root themselves.
 * @returns their roots
 */
function* savedBeforeRoots(
  session: Session,
  facts: PruneFacts,
  roots: readonly Stored[],
  rootIds: ReadonlyMap<string, Stored>,
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
        const noted = rootIds.get((yield* rootIdOf(session, facts.key, one)) ?? "");
        if (noted === undefined || noted.position < one.position) break;
        found.set(one, noted);
      }
    }
  }
  return found;
}

/** A namespace that only one task of a node had and nobody will have again: a segment contains the task's id. */
function isPassing(ns: string): boolean {
  return ns.includes(":");
}

function hasRows({ versions }: Stored): boolean {
  return versions.some(({ archived }) => archived === undefined);
}

/** The tasks of what is left, including the one that was running where the last prune stopped. */
const TASKS_LEFT = TASK_ROWS.select(`WHERE thread = ?1
  AND seq >= coalesce((SELECT max(seq) FROM langgraph_tasks WHERE thread = ?1 AND seq <= ?2), 0) ORDER BY seq`);

/**
 * The start of the first of the newest tasks; 0 if there are no others.
 * @throws {TurnsError} CHECKPOINT_CORRUPTED
 */
function* beginningOfTasks(session: Session, { key, prunedSeq }: PruneFacts, count: number): Program<number> {
  const rows = yield* session.all<RawOf<typeof TASKS>>(TASKS_LEFT, key.thread, prunedSeq);
  const tasks = taskSpans(rows.map((row) => TASK_ROWS.parse(session.sealing, key.threadId, row)));
  return tasks.length <= count ? 0 : Math.min(...tasks.slice(-count).map((task) => task.firstSeq));
}

/**
 * No checkpoint counts as older than one that was saved before it, no matter what the clock said.
 *
 * @param tasksFrom start of the tasks that stay; the checkpoint before stays too, so that the first of them can be rewound
 */
function keepRoots(
  roots: readonly Stored[],
  { keepLast, before }: PruneCriteria,
  tasksFrom: number | undefined,
  kept: Set<string>,
): void {
  const keptByNumber = keepLast === undefined ? Infinity : Math.max(0, roots.length - keepLast);
  const keptByTask = tasksFrom === undefined ? Infinity : roots.findLastIndex(({ position }) => position < tasksFrom);
  const isFree = keepLast === undefined && tasksFrom === undefined;
  const firstKept = isFree ? 0 : Math.min(keptByNumber, keptByTask);
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

/** Without its root checkpoint it is only useful if that is still to be saved (durability "exit"). */
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
      if (one.position >= root.position || ((yield* places.rootOf(one)) as Stored).position >= root.position) continue;
      kept.add(keyOf(ns, one.id));
      break;
    }
  }
}

/** The root checkpoint that a subgraph's checkpoint belongs to, as LangGraph noted it. */
function* rootIdOf(session: Session, key: ThreadState, { versions }: Stored): Program<string | undefined> {
  const version = versions.find(({ archived }) => archived === undefined);
  const row = version && (yield* session.get<RawSnapshot>(BY_SEQ, version.seq));
  if (row === undefined) return undefined;
  const { metadata, body } = SNAPSHOT_ROWS.parse(session.sealing, key.threadId, row);
  const root = rootIdIn(metadata) ?? rootIdIn(body);
  return typeof root === "string" ? root : undefined;
}

/** @param text codec text of metadata, or of a body if a serde has made the metadata */
function rootIdIn(text: string): unknown {
  const { parents } = (decode(text) ?? {}) as { parents?: Record<string, unknown> | null };
  return parents?.[""];
}

/**
 * Adds the checkpoints that were edited (`updateState`) into kept ones, as far back as effects ran on them. A run from there
 * finds these effects through the checkpoints in between, and would repeat the side effects without them. Once such a run has
 * found them, they belong to it.
 */
export function* addEdited(session: Session, { checkpoints }: PruneFacts, kept: Set<string>): Program<void> {
  for (const at of [...kept]) {
    const before: string[] = [];
    let edit = checkpoints.get(at);
    while (edit?.ns === "") {
      const version = liveOrNewest(edit);
      const parentAt = version.source === "update" && version.parentId !== undefined ? keyOf("", version.parentId) : undefined;
      const parent = parentAt === undefined ? undefined : checkpoints.get(parentAt);
      // A damaged file may contain a cycle.
      if (parentAt === undefined || parent === undefined || before.includes(parentAt)) break;
      before.push(parentAt);
      if ((yield* session.get(HAS_EFFECTS, parent.id)) !== undefined) for (const one of before) kept.add(one);
      edit = parent;
    }
  }
}

/**
 * Adds what kept checkpoints need to be readable. For each delta channel without a value of its own, it adds the ancestors up to
 * the nearest one with a value, with all their writes. The added checkpoints must be readable too.
 */
export function* addDeltaAncestors(session: Session, facts: PruneFacts, kept: Set<string>): Program {
  const needs = new DeltaNeeds(session, facts);
  const siblings = siblingsOf(facts);
  const waiting = [...kept];
  const keep = (key: string): void => {
    if (kept.has(key)) return;
    kept.add(key);
    waiting.push(key);
  };
  for (let key = waiting.pop(); key !== undefined; key = waiting.pop()) {
    const stored = facts.checkpoints.get(key);
    if (stored === undefined) continue;
    for (const version of stored.versions) {
      for (const channel of yield* needs.of(stored.ns, version))
        yield* climb(facts, needs, siblings, stored, version, channel, keep);
    }
  }
}

/**
 * Keeps each ancestor until one has the channel's value. For a checkpoint made by `updateState`, the sibling before it stays too:
 * it tells which of the parent's writes are the checkpoint's own (see `delta.ts`).
 */
function* climb(
  { checkpoints }: PruneFacts,
  needs: DeltaNeeds,
  siblings: Siblings,
  { ns, position: firstPosition }: Stored,
  first: Version,
  channel: string,
  keep: (key: string) => void,
): Program {
  const seen = new Set<string>();
  let child = first;
  let position = firstPosition;
  while (child.parentId !== undefined && !seen.has(child.parentId)) {
    seen.add(child.parentId);
    const parentKey = keyOf(ns, child.parentId);
    const parent = checkpoints.get(parentKey);
    if (parent === undefined) return;
    keep(parentKey);
    if (child.source === "update") {
      const before = siblings.get(parentKey)?.findLast((sibling) => sibling.position < position);
      if (before !== undefined) keep(before.key);
    }
    const version = liveOrNewest(parent);
    if ((yield* needs.manifestOf(version)).get(channel)?.pointer !== undefined) return;
    child = version;
    position = parent.position;
  }
}

/** The delta channels whose value isn't in a checkpoint. */
class DeltaNeeds {
  readonly #manifests = new Map<Version, Manifest>();
  readonly #needs = new Map<Version, ReadonlySet<string>>();

  constructor(
    private readonly session: Session,
    private readonly facts: PruneFacts,
  ) {}

  *manifestOf(version: Version): Program<Manifest> {
    let manifest = this.#manifests.get(version);
    if (manifest === undefined) {
      const text = version.archived ?? (yield* this.session.get<{ channels: string }>(MANIFEST, version.seq))?.channels;
      this.#manifests.set(version, (manifest = parseManifest(text ?? "{}")));
    }
    return manifest;
  }

  /**
   * A run notes its delta channels, `updateState` doesn't. So its checkpoint is taken to lack what its parent lacks, plus each
   * channel without a value here that had one there, or another version.
   */
  *of(ns: string, version: Version): Program<ReadonlySet<string>> {
    const unnoted: [Version, Version][] = [];
    let top = version;
    while (!this.#needs.has(top)) {
      const parent = top.parentId === undefined ? undefined : this.facts.checkpoints.get(keyOf(ns, top.parentId));
      // Set before the parents are visited: a damaged file may contain a cycle.
      this.#needs.set(top, new Set(top.delta));
      if (top.delta !== undefined || !["update", "fork"].includes(top.source) || parent === undefined) break;
      unnoted.push([top, liveOrNewest(parent)]);
      top = liveOrNewest(parent);
    }
    for (const [child, parent] of unnoted.reverse()) this.#needs.set(child, yield* this.#inherited(child, parent));
    return this.#needs.get(version) as ReadonlySet<string>;
  }

  *#inherited(child: Version, parent: Version): Program<Set<string>> {
    const own = yield* this.manifestOf(child);
    const needs = new Set<string>();
    for (const channel of this.#needs.get(parent) ?? []) if (own.get(channel)?.pointer === undefined) needs.add(channel);
    const above = yield* this.manifestOf(parent);
    for (const [channel, { version, pointer }] of own) {
      const before = above.get(channel);
      const isChanged = before?.pointer !== undefined || before?.version !== version;
      if (pointer === undefined && isChanged && !OWN_CHANNEL.test(channel)) needs.add(channel);
    }
    return needs;
  }
}

type Siblings = ReadonlyMap<string, readonly { key: string; position: number }[]>;

/** The children of each parent, in the order in which they were first saved. */
function siblingsOf({ checkpoints }: PruneFacts): Siblings {
  const siblings = new Map<string, { key: string; position: number }[]>();
  const inOrder = [...checkpoints].toSorted(([, left], [, right]) => left.position - right.position);
  for (const [key, { ns, position, versions }] of inOrder) {
    for (const { parentId } of versions) if (parentId !== undefined) push(siblings, keyOf(ns, parentId), { key, position });
  }
  return siblings;
}
