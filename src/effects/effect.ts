import { type SpanAttributes, spanned } from "../tracing";
import { contextOf } from "./context";
import type { EffectJournal } from "./journal";
import { checkedEffect, type EffectOptions } from "./options";

/**
 * Does something to the outside world from within a node, a tool or a functional task, so that a re-run never does it twice unnoticed:
 * an intent is committed before `fn`, its result after it. Met again (after a crash, a retry, an interrupt), an effect that is done gives
 * its recorded result without calling `fn`; one whose outcome is unknown is settled as its options say, or else refused. See
 * docs/effects.md.
 *
 * @param name what is done; effects of the same name in one node are told apart by their order, or by `options.id`
 * @param fn is given a key that stays the same over all tries of this effect and is never used for another one
 * @returns what `fn` returned, now or at an earlier time
 * @throws {TurnsError} EFFECT_IN_DOUBT, EFFECT_CHANGED, EFFECT_NOT_RECORDED, EFFECT_OUTSIDE_NODE, INVALID_OPTION, UNSERIALIZABLE_VALUE
 *   for an input or result that cannot be saved; what the store throws if the intent cannot be committed, and then `fn` was not
 *   called; and what `fn` throws
 */
export async function effect<T>(name: string, fn: (key: string) => T | Promise<T>, options: EffectOptions<T> = {}): Promise<T> {
  const checked = checkedEffect(name, fn, options);
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
