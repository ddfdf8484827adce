import { AsyncLocalStorageProviderSingleton } from "@langchain/core/singletons";
import { TurnsError } from "../errors";
import { type SpanAttributes, spanned } from "../tracing";
import { JOURNAL } from "../turns/recorder";
import type { Doing, EffectJournal } from "./journal";
import { type CheckedEffect, checkedEffect, type EffectOptions, type EffectPlace } from "./options";
import { refuseInTransaction } from "./transactional";

/**
 * Performs a side effect from within a node, a tool or a functional task, so that a re-run never silently repeats it.
 *
 * An intent is committed before `fn` is called, and its result after. If the effect is reached again (after a crash, a retry, an
 * interrupt), a completed one returns its recorded result without calling `fn`. One with an unknown outcome is settled as its
 * options say, or refused. See docs/effects.md.
 *
 * This is the form for one-offs. To let a rewind undo an effect, define it with `defineEffect`.
 *
 * @param name what is done; effects of the same name in one node are told apart by their order, or by `options.id`
 * @param fn performs it; its key stays the same for all tries of this effect, and is never used for another one
 * @returns what `fn` returned, now or at an earlier time
 * @throws {TurnsError} EFFECT_IN_DOUBT, EFFECT_CHANGED, EFFECT_NOT_RECORDED, EFFECT_OUTSIDE_NODE, EFFECT_IN_TRANSACTION, INVALID_OPTION;
 *   UNSERIALIZABLE_VALUE for an input or result that can't be saved; what the store throws if the intent can't be committed, and
 *   then `fn` was not called; and what `fn` throws
 */
export async function effect<T>(name: string, fn: (key: string) => T | Promise<T>, options: EffectOptions<T> = {}): Promise<T> {
  return journaled(name, (key) => fn(key), checkedEffect(name, fn, options));
}

/** @throws as {@link effect} */
export async function journaled<T>(name: string, fn: Doing, checked: CheckedEffect): Promise<T> {
  refuseInTransaction(name);
  const { journal, place } = contextOf<EffectJournal>(name, checked.config);
  // Before the first await: effects that are called side by side are numbered in the order of their calls.
  const call = journal.called(name, checked, place);
  const { threadId, nodeNs } = place;
  const attributes = (): SpanAttributes => ({
    "langgraph.thread_id": threadId,
    "langgraph.checkpoint_ns": nodeNs,
    "effect.name": name,
  });
  return spanned(`effect ${name}`, attributes, () => journal.run(call, fn, checked)) as Promise<T>;
}

interface NodeConfig {
  configurable?: Record<string, unknown>;
  callbacks?: { handlers?: unknown[]; getParentRunId?: () => string | undefined } | unknown[];
}

/**
 * Finds the journal and the place of a call.
 *
 * @throws {TurnsError} EFFECT_OUTSIDE_NODE outside a node, or in a graph that no saver is attached to
 */
function contextOf<J>(name: string, given: object | undefined): { journal: J; place: EffectPlace } {
  const config = (given ?? AsyncLocalStorageProviderSingleton.getRunnableConfig()) as NodeConfig | undefined;
  const configurable = config?.configurable ?? {};
  const { thread_id: threadId, checkpoint_ns: nodeNs, checkpoint_map: map } = configurable;
  const nodeTaskId = configurable["__pregel_task_id"];
  if (typeof threadId !== "string" || typeof nodeNs !== "string" || typeof nodeTaskId !== "string") {
    throw outside(
      name,
      config === undefined
        ? "outside of a graph: there is no config of LangGraph's"
        : "with a config that no node was called with",
    );
  }
  const callbacks = Array.isArray(config?.callbacks) ? undefined : config?.callbacks;
  const journal = journalOf(Array.isArray(config?.callbacks) ? config.callbacks : (callbacks?.handlers ?? []));
  if (journal === undefined) throw outside(name, "in a graph that no TurnSaver is attached to");
  const { "": root, ...inner } = (map ?? {}) as Record<string, string | undefined>;
  return {
    journal: journal as J,
    place: {
      threadId,
      nodeNs,
      nodeTaskId,
      rootCheckpointId: typeof root === "string" ? root : undefined,
      innerCheckpointIds: inner as Record<string, string>,
      runId: callbacks?.getParentRunId?.(),
    },
  };
}

/** The journal of the saver that keeps the run. For nested graphs attached to several savers, the innermost. */
function journalOf(handlers: readonly unknown[]): unknown {
  const faces = handlers.filter((handler) => (handler as { [JOURNAL]?: unknown } | null)?.[JOURNAL] !== undefined) as {
    [JOURNAL]: unknown;
    isElsewhere?: boolean;
  }[];
  return (faces.findLast(({ isElsewhere }) => isElsewhere !== true) ?? faces.at(-1))?.[JOURNAL];
}

const outside = (name: string, where: string): TurnsError =>
  new TurnsError("EFFECT_OUTSIDE_NODE", {
    problem: `Effect ${JSON.stringify(name)} was called ${where}. It belongs in a node, a tool or a task of a graph that a TurnSaver is attached to.`,
    remedy:
      "Run the graph with a GraphRunner, or call saver.attach(graph); pass the node's config as the option `config` where there is no async context, and await the effect before the node returns. Nothing was done.",
    data: { name },
  });
