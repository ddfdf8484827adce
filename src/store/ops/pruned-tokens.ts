import { TurnsError } from "../../errors";
import { pathOf } from "../effects";
import { type Program, question, type Statement } from "../program";
import { type RawTurn, TASK_ROWS, toTurn, TURN_ROWS } from "../rows";
import type { Session } from "../session";
import type { TaskRow, TurnRow } from "../store";
import type { RawOf, TASKS } from "../tables";
import type { ThreadState } from "../thread-state";
import { type NodeTokens, prunedTokensOf, prunedTokensText, withTokens } from "../token-sums";
import { IN_PART, partsOf } from "./paging";

/** Thoughts only: an Action repeats the tokens of its Thought. */
const WITH_TOKENS = TURN_ROWS.select(`WHERE thread = ? AND seq ${IN_PART} AND turn_type = 'Thought'
  AND input_tokens + output_tokens + cached_tokens + reasoning_tokens > 0 ORDER BY seq`);
const INTERVAL_OF = TASK_ROWS.select("WHERE thread = ? AND seq <= ? ORDER BY seq DESC LIMIT 1");

/** What {@link keepTokens} asks first. */
export function tokenQuestions(thread: number, seqs: readonly number[]): Statement[] {
  return partsOf(seqs).map((part) => question("all", WITH_TOKENS, thread, ...part));
}

/**
 * Adds the tokens of turns that are about to be pruned to the interval of their task. A rewind to a task keeps or deletes whole
 * intervals, so the sums stay exact. A damaged row adds nothing, because a new checksum would vouch for it.
 *
 * @param seqs of the turns
 */
export function* keepTokens(session: Session, key: ThreadState, seqs: readonly number[]): Program {
  for (const part of partsOf(seqs)) {
    const rows = yield* session.all<RawTurn>(WITH_TOKENS, key.thread, ...part);
    const turns = rows.flatMap((row) => unlessDamaged(() => toTurn(session, row, key.threadId)) ?? []);
    const intervals = yield* session.sideBySide(
      turns.map(({ seq = 0 }) => session.get<RawOf<typeof TASKS>>(INTERVAL_OF, key.thread, seq)),
    );
    const tasks = new Map<number, TaskRow>();
    for (const [at, turn] of turns.entries()) {
      const interval = intervals[at];
      const task =
        interval && (tasks.get(interval.seq) ?? unlessDamaged(() => TASK_ROWS.parse(session.sealing, key.threadId, interval)));
      if (task === undefined) continue;
      const prunedTokens = prunedTokensText(withTokens(prunedTokensOf(task), [tokensOf(turn)]));
      tasks.set(task.seq, { ...task, prunedTokens });
    }
    for (const task of tasks.values()) yield* session.run(TASK_ROWS.update, ...TASK_ROWS.changed(session.sealing, key, task));
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
