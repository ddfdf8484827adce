import { isDeepStrictEqual } from "node:util";
import type { CheckpointTuple } from "@langchain/langgraph-checkpoint";
import type { TurnSaverOptions } from "../../src/index";
import { type Outcomes, withSaver } from "./calls";
import { at } from "./world";

/** All that a file holds of its threads, row by row, so that a part of it can be compared with the whole. */
export interface States {
  outcomes: Outcomes;
  /** By thread, namespace and id; turns and effects by theirs. */
  rows: ReadonlyMap<string, unknown>;
  /** By the key of the checkpoint. */
  writes: ReadonlyMap<string, readonly unknown[]>;
}

export async function statesOf(path: string, threads: readonly string[], options: TurnSaverOptions): Promise<States> {
  const rows = new Map<string, unknown>();
  const writes = new Map<string, readonly unknown[]>();
  const outcomes = await withSaver(path, options, async (saver, told) => {
    for (const id of threads) {
      await told(`list of ${id}`, async () => {
        for await (const tuple of saver.list(at(id))) {
          const key = keyOf(id, tuple);
          rows.set(key, { checkpoint: tuple.checkpoint, metadata: tuple.metadata, parent: tuple.parentConfig });
          writes.set(key, tuple.pendingWrites ?? []);
        }
      });
      await told(`turns of ${id}`, async () => {
        for (const turn of await saver.turns.list(id)) rows.set(`${id} turn ${turn.id}`, [turn, await saver.turns.state(turn)]);
      });
      await told(`effects of ${id}`, async () => {
        for (const effect of await saver.effects.list(id)) rows.set(`${id} effect ${effect.id}`, effect);
      });
      await told(`names of ${id}`, async () => {
        for (const name of await saver.names.list(id)) rows.set(`${id} name ${name.name}`, name);
      });
    }
  });
  return { outcomes, rows, writes };
}

/** Rows of both; if both have one, the later one's. */
export function merged(states: readonly States[]): States {
  const writes = new Map<string, readonly unknown[]>();
  for (const each of states) for (const [key, entries] of each.writes) writes.set(key, [...(writes.get(key) ?? []), ...entries]);
  return {
    outcomes: new Map(states.flatMap(({ outcomes }) => [...outcomes])),
    rows: new Map(states.flatMap(({ rows }) => [...rows])),
    writes,
  };
}

function keyOf(threadId: string, { config }: CheckpointTuple): string {
  const { checkpoint_ns: ns = "", checkpoint_id: id } = config.configurable as { checkpoint_ns?: string; checkpoint_id: string };
  return `${threadId} checkpoint ${ns} ${id}`;
}

/**
 * What was read from the part and isn't the same in the whole.
 *
 * @param isOlder the part may be an older state, in which effects and turns were not yet settled
 */
export function notOfAnyState(whole: States, part: States, isOlder: boolean): string[] {
  const wrong: string[] = [];
  for (const [name, outcome] of part.outcomes) {
    if ("broken" in outcome) wrong.push(`${name}: ${outcome.broken.split("\n").slice(0, 3).join(" ")}`);
  }
  for (const [key, row] of part.rows) {
    if (!whole.rows.has(key)) wrong.push(`${key} was never there`);
    else if (isOlder && / (effect|turn) /.test(key)) continue;
    else if (!isDeepStrictEqual(row, whole.rows.get(key))) wrong.push(`${key} is another one`);
  }
  for (const [key, entries] of part.writes) {
    const known = whole.writes.get(key) ?? [];
    const unknown = entries.filter((entry) => !known.some((one) => isDeepStrictEqual(one, entry)));
    if (unknown.length > 0) wrong.push(`${key} has writes that were never there`);
  }
  return wrong;
}
