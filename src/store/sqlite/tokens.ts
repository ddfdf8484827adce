import type { Store, TokenCounts, TokenRow, TurnType } from "../store";
import type { Sql } from "./sql";
import { threadKey } from "./thread-keys";
import { type RawTurn, toTurn, TURN_COLUMNS, updateTurn } from "./turn-rows";

const OF_ATTEMPT = `SELECT ${TURN_COLUMNS} FROM langgraph_checkpoints
  WHERE thread = ? AND node_task_id = ? AND run_id = ? AND turn_type = ? ORDER BY seq DESC LIMIT 1`;
const NEWEST = `SELECT ${TURN_COLUMNS} FROM langgraph_checkpoints
  WHERE thread = ? AND node_task_id = ? AND turn_type = 'Thought' ORDER BY seq DESC LIMIT 1`;
/** An Action repeats what its Thought says. */
const BY_TASK_AND_NODE = `SELECT task_id AS taskId, node_name AS nodeName, sum(input_tokens) AS input, sum(output_tokens) AS output,
    sum(cached_tokens) AS cached, sum(reasoning_tokens) AS reasoning
  FROM langgraph_checkpoints WHERE thread = ? AND turn_type = 'Thought' GROUP BY task_id, node_name ORDER BY min(seq)`;
const sumOf = (column: string): string => `coalesce(sum(json_extract(row, '$.${column}')), 0)`;
const REWOUND = `SELECT ${sumOf("input_tokens")} AS input, ${sumOf("output_tokens")} AS output,
    ${sumOf("cached_tokens")} AS cached, ${sumOf("reasoning_tokens")} AS reasoning
  FROM langgraph_archive WHERE thread_id = ? AND tbl = 'langgraph_checkpoints' AND change = 'deleted'
    AND json_extract(row, '$.turn_type') = 'Thought'`;

export function addTokens(sql: Sql, of: Parameters<Store["addTokens"]>[0], tokens: TokenCounts): void {
  const { threadId, nodeTaskId, attemptRunId } = of;
  const key = threadKey(sql, threadId);
  if (key === undefined) return;
  const ofAttempt = (runId: string, type: TurnType): RawTurn | undefined =>
    sql.get<RawTurn>(OF_ATTEMPT, key.thread, nodeTaskId, runId, type);
  const thought =
    (attemptRunId === undefined ? undefined : ofAttempt(attemptRunId, "Thought")) ??
    sql.get<RawTurn>(NEWEST, key.thread, nodeTaskId);
  if (thought === undefined) return;
  const action = thought.run_id === null ? undefined : ofAttempt(thought.run_id, "Action");
  for (const row of action === undefined ? [thought] : [thought, action]) {
    const turn = toTurn(sql, row, threadId);
    updateTurn(sql, turn, {
      inputTokens: turn.inputTokens + tokens.input,
      outputTokens: turn.outputTokens + tokens.output,
      cachedTokens: turn.cachedTokens + tokens.cached,
      reasoningTokens: turn.reasoningTokens + tokens.reasoning,
    });
  }
}

export function tokenUsage(sql: Sql, threadId: string): { rows: TokenRow[]; rewound: TokenCounts } {
  const key = threadKey(sql, threadId);
  const rewound = sql.get<TokenCounts>(REWOUND, threadId) as TokenCounts;
  return { rows: key === undefined ? [] : sql.all<TokenRow>(BY_TASK_AND_NODE, key.thread), rewound };
}
