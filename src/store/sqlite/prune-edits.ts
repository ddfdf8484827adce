import { SETTLED_AS_HISTORY } from "../effects";
import { liveVersion } from "./prune-keep";
import { keyOf, type ThreadFacts } from "./prune-rows";
import type { Program } from "../program";
import type { Sql } from "../session";

/** Of whatever thread: a node may run a graph on another one, and what that did is of this checkpoint too. */
const HAS_EFFECTS = `SELECT 1 FROM langgraph_threads AS t CROSS JOIN langgraph_effects AS e ON e.thread = t.thread AND e.anchor = ?
  WHERE e.status <> 'failed' AND e.undo_status IS NOT 'done' AND e.settled_by IS NOT '${SETTLED_AS_HISTORY}' LIMIT 1`;

/**
 * Adds what was edited (`updateState`) into checkpoints that stay, as far back as effects ran under it: a run from there finds these by
 * the checkpoints in between, and would do the deeds once more without them. Once such a run has found them, they are its own.
 */
export function* addEdited(sql: Sql, { checkpoints }: ThreadFacts, kept: Set<string>): Program<void> {
  for (const at of [...kept]) {
    const before: string[] = [];
    let edit = checkpoints.get(at);
    while (edit?.ns === "") {
      const version = liveVersion(edit) ?? edit.versions.at(-1);
      const parentAt = version?.source === "update" && version.parentId !== undefined ? keyOf("", version.parentId) : undefined;
      const parent = parentAt === undefined ? undefined : checkpoints.get(parentAt);
      // A damaged file may contain a cycle.
      if (parentAt === undefined || parent === undefined || before.includes(parentAt)) break;
      before.push(parentAt);
      if ((yield* sql.get(HAS_EFFECTS, parent.id)) !== undefined) for (const one of before) kept.add(one);
      edit = parent;
    }
  }
}
