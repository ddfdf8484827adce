import { type Manifest, parseManifest } from "../ops/heads";
import { keyOf, manifestTextOf, push, type Stored, type ThreadFacts, type Version } from "./prune-rows";
import type { Program } from "../program";
import type { Sql } from "../session";

/** LangGraph's own channels, which are emptied when they are read and are never delta channels. */
const OWN_CHANNEL = /^(__|branch:|join:)/;

/**
 * Adds to the checkpoints that stay what they need to be readable: for each delta channel that has no value of its own, the ancestors up
 * to the nearest one that has, with all their writes. What is added has to be readable in its turn.
 */
export function* addDeltaAncestors(sql: Sql, facts: ThreadFacts, kept: Set<string>): Program {
  const manifests = new Map<Version, Manifest>();
  const manifestOf = function* (version: Version): Program<Manifest> {
    let manifest = manifests.get(version);
    if (manifest === undefined) manifests.set(version, (manifest = parseManifest(yield* manifestTextOf(sql, version))));
    return manifest;
  };
  const world: World = { facts, manifestOf, siblings: siblingsOf(facts), needs: new Map() };
  const waiting = [...kept];
  const keep = (key: string): void => {
    if (kept.has(key) || !facts.checkpoints.has(key)) return;
    kept.add(key);
    waiting.push(key);
  };
  for (let key = waiting.pop(); key !== undefined; key = waiting.pop()) {
    const stored = facts.checkpoints.get(key);
    for (const version of stored?.versions ?? []) {
      for (const channel of yield* needsOf(world, stored as Stored, version)) {
        yield* climb(world, stored as Stored, version, channel, keep);
      }
    }
  }
}

interface World {
  facts: ThreadFacts;
  manifestOf: (version: Version) => Program<Manifest>;
  siblings: ReadonlyMap<string, readonly { key: string; seq: number }[]>;
  needs: Map<Version, ReadonlySet<string>>;
}

/**
 * Keeps each ancestor until one has the channel's value. Of a checkpoint made by `updateState` the sibling before it stays too: it tells
 * which of the parent's writes are the checkpoint's own (see `delta.ts`).
 */
function* climb(world: World, from: Stored, first: Version, channel: string, keep: (key: string) => void): Program {
  const { ns } = from;
  const seen = new Set<string>();
  let child = first;
  while (child.parentId !== undefined && !seen.has(child.parentId)) {
    seen.add(child.parentId);
    const parentKey = keyOf(ns, child.parentId);
    const parent = world.facts.checkpoints.get(parentKey);
    if (parent === undefined) return;
    keep(parentKey);
    if (child.source === "update") {
      const { seq } = child;
      const before = world.siblings.get(parentKey)?.findLast((sibling) => sibling.seq < seq);
      if (before !== undefined) keep(before.key);
    }
    const version = liveOrNewest(parent);
    if ((yield* world.manifestOf(version)).get(channel)?.pointer !== undefined) return;
    child = version;
  }
}

/**
 * The delta channels whose value is not in this version. A run notes them; `updateState` notes nothing, so that what it makes is taken to
 * lack what its parent lacks, and what has no value here and had one there, or another version.
 */
function* needsOf(world: World, stored: Stored, version: Version): Program<ReadonlySet<string>> {
  const unnoted: [Version, Version][] = [];
  let top = version;
  while (!world.needs.has(top)) {
    const parent = top.parentId === undefined ? undefined : world.facts.checkpoints.get(keyOf(stored.ns, top.parentId));
    // Set before the parents are looked at: a damaged file may contain a cycle.
    world.needs.set(top, new Set(top.delta));
    if (top.delta !== undefined || !["update", "fork"].includes(top.source) || parent === undefined) break;
    unnoted.push([top, liveOrNewest(parent)]);
    top = liveOrNewest(parent);
  }
  for (const [child, parent] of unnoted.reverse()) world.needs.set(child, yield* inherited(world, child, parent));
  return world.needs.get(version) as ReadonlySet<string>;
}

function* inherited(world: World, child: Version, parent: Version): Program<Set<string>> {
  const own = yield* world.manifestOf(child);
  const needs = new Set<string>();
  for (const channel of world.needs.get(parent) ?? []) if (own.get(channel)?.pointer === undefined) needs.add(channel);
  const above = yield* world.manifestOf(parent);
  for (const [channel, { version, pointer }] of own) {
    const before = above.get(channel);
    const isChanged = before?.pointer !== undefined || before?.version !== version;
    if (pointer === undefined && isChanged && !OWN_CHANNEL.test(channel)) needs.add(channel);
  }
  return needs;
}

function liveOrNewest({ versions }: Stored): Version {
  return (versions.find(({ live }) => live) ?? versions.at(-1)) as Version;
}

/** By parent, the children in all their versions, in the order of their seqs. */
function siblingsOf({ checkpoints }: ThreadFacts): Map<string, { key: string; seq: number }[]> {
  const siblings = new Map<string, { key: string; seq: number }[]>();
  const all = [...checkpoints].flatMap(([key, { ns, versions }]) => versions.map((version) => ({ key, ns, version })));
  for (const { key, ns, version } of all.toSorted((left, right) => left.version.seq - right.version.seq)) {
    if (version.parentId !== undefined) push(siblings, keyOf(ns, version.parentId), { key, seq: version.seq });
  }
  return siblings;
}
