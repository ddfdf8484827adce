import type { Program } from "../program";
import { type RawTurn, toTurn, TURN_ROWS } from "../rows";
import type { Session } from "../session";
import { openArchive } from "./archive";
import { eachRow } from "./paging";
import { listRewinds } from "./rewind-records";
import { checkLease, tasksOf, threadKey } from "./thread-rows";
import type { Store, TokenCounts, TokenRow, TurnRow } from "../store";
import { type RawOf, TASKS, TURNS } from "../tables";
import { prunedTokensOf, summed } from "../token-sums";
import { newestOf, turnsOf, updateTurn } from "./turns";

/** A checksum covers the whole row, so every row is read; a page at a time. */
const ROWS_PER_PAGE = 200;
const PAGE = TURN_ROWS.select(`WHERE thread = ? AND seq > ? ORDER BY seq LIMIT ${ROWS_PER_PAGE}`);

export function* addTokens(session: Session, of: Parameters<Store["addTokens"]>[0], tokens: TokenCounts): Program<void> {
  const { threadId, nodeTaskId, attemptRunId } = of;
  yield* checkLease(session, of.lease);
  const key = yield* threadKey(session, threadId);
  if (key === undefined) return;
  const turns = yield* turnsOf(session, key, nodeTaskId);
  const thought =
    (attemptRunId === undefined ? undefined : newestOf(turns, "Thought", attemptRunId)) ?? newestOf(turns, "Thought");
  if (thought === undefined) return;
  const action = thought.runId === undefined ? undefined : newestOf(turns, "Action", thought.runId);
  for (const turn of action === undefined ? [thought] : [thought, action]) {
    yield* updateTurn(session, turn, {
      inputTokens: turn.inputTokens + tokens.input,
      outputTokens: turn.outputTokens + tokens.output,
      cachedTokens: turn.cachedTokens + tokens.cached,
      reasoningTokens: turn.reasoningTokens + tokens.reasoning,
    });
  }
}

/**
 * Sums over verified rows: over all turns, because a damaged one may belong to any task. Thoughts only: an Action repeats the
 * tokens of its Thought.
 */
export function* tokenUsage(session: Session, threadId: string): Program<{ rows: TokenRow[]; rewound: TokenCounts }> {
  const key = yield* threadKey(session, threadId);
  const rows = new Map<string, TokenRow>();
  const add = (taskId: string, nodeName: string, counts: TokenCounts): void => {
    const at = JSON.stringify([taskId, nodeName]);
    rows.set(at, { taskId, nodeName, ...summed(rows.get(at) ?? NONE, counts) });
  };
  if (key !== undefined) {
    for (const task of yield* tasksOf(session, key)) {
      for (const { path, ...counts } of prunedTokensOf(task)) add(task.taskId, path.slice(path.lastIndexOf("|") + 1), counts);
    }
    const paged = { table: TURNS.name, query: PAGE, bound: [key.thread], key: "seq", begin: 0, limit: ROWS_PER_PAGE };
    yield* eachRow<RawTurn>(session, paged, (row) => {
      const turn = toTurn(session, row, threadId);
      if (turn.turnType === "Thought") add(turn.taskId, turn.nodeName, countsOf(turn));
      return undefined;
    });
  }
  return { rows: [...rows.values()], rewound: yield* rewoundTokens(session, threadId) };
}

function* rewoundTokens(session: Session, threadId: string): Program<TokenCounts> {
  let total = NONE;
  for (const rewind of yield* listRewinds(session, threadId)) {
    if (!rewind.archived || rewind.takenBackAt !== undefined) continue;
    yield* openArchive(session, rewind, ({ tbl, change, row }) => {
      if (change === "deleted" && tbl === TASKS.name) {
        const { pruned_tokens: pruned } = JSON.parse(row) as RawOf<typeof TASKS>;
        for (const counts of prunedTokensOf({ prunedTokens: pruned ?? undefined })) total = summed(total, counts);
      }
      if (change !== "deleted" || tbl !== TURNS.name) return undefined;
      const turn = JSON.parse(row) as RawTurn;
      if (turn.turn_type !== "Thought") return undefined;
      const { input_tokens: input, output_tokens: output, cached_tokens: cached, reasoning_tokens: reasoning } = turn;
      total = summed(total, { input, output, cached, reasoning });
      return undefined;
    });
  }
  return total;
}

const NONE: TokenCounts = { input: 0, output: 0, cached: 0, reasoning: 0 };

function countsOf({
  inputTokens: input,
  outputTokens: output,
  cachedTokens: cached,
  reasoningTokens: reasoning,
}: TurnRow): TokenCounts {
  return { input, output, cached, reasoning };
}
