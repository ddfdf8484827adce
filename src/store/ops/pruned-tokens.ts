import { TurnsError } from "../../errors";
import { pathOf } from "../effects";
import type { Program } from "../program";
import { type RawTurn, TASK_ROWS, toTurn, TURN_ROWS } from "../rows";
import type { Session } from "../session";
import type { TurnRow } from "../store";
import type { RawOf, TASKS } from "../tables";
import type { ThreadState } from "../thread-state";
import { type NodeTokens, prunedTokensOf, prunedTokensText, withTokens } from "../token-sums";
import { IN_PART, partsOf } from "./paging";

/** Thoughts only: an Action repeats the tokens of its Thought. */
const WITH_TOKENS = TURN_ROWS.select(`WHERE thread = ? AND seq ${IN_PART} AND turn_type = 'Thought'
  AND input_tokens + output_tokens + cached_tokens + reasoning_tokens > 0 ORDER BY seq`);
const INTERVAL_OF = TASK_ROWS.select("WHERE thread = ? AND seq <= ? ORDER BY seq DESC LIMIT 1");

/**
 * Adds the tokens of turns that are about to be pruned to the interval of their task. A rewind to a task keeps or deletes whole
 * intervals, so the sums stay exact. A damaged row adds nothing, because a new checksum would vouch for it.
 *
 * @param seqs of the turns
 */
export function* keepTokens(session: Session, key: ThreadState, seqs: readonly number[]): Program {
  for (const part of partsOf(seqs)) {
    for (const row of yield* session.all<RawTurn>(WITH_TOKENS, key.thread, ...part)) {
      const turn = unlessDamaged(() => toTurn(session, row, key.threadId));
      const interval = turn && (yield* session.get<RawOf<typeof TASKS>>(INTERVAL_OF, key.thread, turn.seq ?? 0));
      const task = interval && unlessDamaged(() => TASK_ROWS.parse(session.sealing, key.threadId, interval));
      if (turn === undefined || task === undefined) continue;
      const prunedTokens = prunedTokensText(withTokens(prunedTokensOf(task), [tokensOf(turn)]));
      yield* session.run(TASK_ROWS.update, ...TASK_ROWS.changed(session.sealing, key, { ...task, prunedTokens }));
    }
  }
}

function tokensOf(turn: TurnRow): NodeTokens {
  return {
    path: pathOf(turn.nodeNs ?? turn.nodeName),
    input: turn.inputTokens,
    output: turn.outputTokens,
    cached: turn.cachedTokens,
    reasoning: turn.reasoningTokens,
  };
}

function unlessDamaged<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (TurnsError.is(error, "CHECKPOINT_CORRUPTED")) return undefined;
    throw error;
  }
}
