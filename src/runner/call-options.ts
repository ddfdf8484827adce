import { z } from "zod";
import { describe, TurnsError } from "../errors";
import { ID_RULE, isId } from "../ids";
import { checkedOptions } from "../options";

/** Not strict: the rest is LangGraph's config. */
const schema = z.looseObject({
  onUnfinished: z.enum(["refuse", "finish", "abandon"]).optional(),
  drift: z.enum(["restart", "refuse", "ignore"]).optional(),
});

/**
 * The thread that a call of the runner names.
 *
 * @throws {TurnsError} INVALID_CONFIG without a thread id; INVALID_OPTION for a policy that is none: it must not stand for another one
 */
export function checkedCall(options: unknown, doing: string): string {
  const { threadId } = (typeof options === "object" && options !== null ? options : {}) as { threadId?: unknown };
  checkThread(threadId, doing);
  checkedOptions(schema, options);
  return threadId;
}

/** @throws {TurnsError} INVALID_CONFIG */
export function checkThread(threadId: unknown, doing: string): asserts threadId is string {
  if (isId(threadId)) return;
  throw new TurnsError("INVALID_CONFIG", {
    what: `threadId, needed for ${doing}`,
    expected: ID_RULE,
    found: describe(threadId),
    remedy:
      'A GraphRunner takes the thread\'s id as an option of its own, e.g. runner.invoke(input, { threadId: "my-thread" }). Nothing was changed.',
    data: { key: "threadId" },
  });
}
