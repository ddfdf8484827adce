import type { LLMResult } from "@langchain/core/outputs";
import type { Lease, TokenCounts, TokenRow } from "../store/store";

/** The node attempt that a model call belongs to. */
export interface ModelCaller {
  threadId: string;
  nodeTaskId: string;
  /** The run of the attempt. If undefined, it's the newest attempt of the node task. */
  attemptRunId: string | undefined;
  /** The lease of the outermost run. */
  lease: Lease | undefined;
}

interface ModelRun {
  caller: ModelCaller;
  outerRunId: string | undefined;
  /** The tokens reported and passed on so far. */
  booked: TokenCounts;
  lastChunk: unknown;
}

const NONE: TokenCounts = { input: 0, output: 0, cached: 0, reasoning: 0 };

/**
 * Token counts that model calls report, each counted once. A stream reports some with its chunks and the total at its end. What
 * its chunks reported stays counted if it breaks.
 */
export class ModelRuns {
  readonly #runs = new Map<string, ModelRun>();

  /** @param outerRunId the outermost run around it; when that is over, a call that never reported its end is forgotten */
  started(runId: string, caller: ModelCaller, outerRunId: string | undefined): void {
    // A handler that is both bound to a graph and passed at invoke is called twice for one run.
    if (!this.#runs.has(runId)) this.#runs.set(runId, { caller, outerRunId, booked: NONE, lastChunk: undefined });
  }

  /** @returns what to count now */
  streamed(runId: string, chunk: unknown): { caller: ModelCaller; tokens: TokenCounts } | undefined {
    const run = this.#runs.get(runId);
    if (run === undefined || chunk === undefined || run.lastChunk === chunk) return undefined;
    run.lastChunk = chunk;
    const tokens = usageOfMessage((chunk as { message?: unknown }).message);
    if (isNone(tokens)) return undefined;
    run.booked = each((count) => run.booked[count] + tokens[count]);
    return { caller: run.caller, tokens };
  }

  /** @param result undefined if it failed. @returns what is still to be counted */
  ended(runId: string, result: LLMResult | undefined): { caller: ModelCaller; tokens: TokenCounts } | undefined {
    const run = this.#runs.get(runId);
    this.#runs.delete(runId);
    if (run === undefined || result === undefined) return undefined;
    const usage = usageOf(result);
    const tokens = each((count) => Math.max(usage[count] - run.booked[count], 0));
    return isNone(tokens) ? undefined : { caller: run.caller, tokens };
  }

  /** A broken-off stream never reports its end. */
  forget(outerRunId: string): void {
    for (const [runId, run] of this.#runs) if (run.outerRunId === outerRunId) this.#runs.delete(runId);
  }
}

function usageOf(result: LLMResult): TokenCounts {
  const usage = result.generations.flatMap((candidates) => usageOfCandidates(candidates)).reduce(sum, NONE);
  if (!isNone(usage)) return usage;
  const output = result.llmOutput as { tokenUsage?: OlderUsage; estimatedTokenUsage?: OlderUsage } | undefined;
  const older = olderUsage(output?.tokenUsage);
  return isNone(older) ? olderUsage(output?.estimatedTokenUsage) : older;
}

/** For several answers to one prompt, providers put the usage of the whole call on each of them. */
function usageOfCandidates(candidates: readonly object[]): TokenCounts[] {
  const different = new Map<string, TokenCounts>();
  for (const candidate of candidates) {
    const usage = usageOfMessage((candidate as { message?: unknown }).message);
    different.set(JSON.stringify(usage), usage);
  }
  return [...different.values()];
}

interface MessageUsage {
  input_tokens?: unknown;
  output_tokens?: unknown;
  input_token_details?: { cache_read?: unknown };
  output_token_details?: { reasoning?: unknown };
}

interface OlderUsage {
  promptTokens?: unknown;
  completionTokens?: unknown;
}

function usageOfMessage(message: unknown): TokenCounts {
  const usage = (message as { usage_metadata?: MessageUsage } | undefined)?.usage_metadata;
  return {
    input: counted(usage?.input_tokens),
    output: counted(usage?.output_tokens),
    cached: counted(usage?.input_token_details?.cache_read),
    reasoning: counted(usage?.output_token_details?.reasoning),
  };
}

function olderUsage(usage: OlderUsage | undefined): TokenCounts {
  return { ...NONE, input: counted(usage?.promptTokens), output: counted(usage?.completionTokens) };
}

/** Models report all kinds of values. An invalid count counts as none, and an estimate may be a fraction. */
function counted(value: unknown): number {
  return typeof value === "number" && value > 0 && value <= Number.MAX_SAFE_INTEGER ? Math.round(value) : 0;
}

function each(count: (name: keyof TokenCounts) => number): TokenCounts {
  return { input: count("input"), output: count("output"), cached: count("cached"), reasoning: count("reasoning") };
}

function sum(one: TokenCounts, other: TokenCounts): TokenCounts {
  return each((count) => one[count] + other[count]);
}

function isNone(usage: TokenCounts): boolean {
  return usage.input + usage.output + usage.cached + usage.reasoning === 0;
}

/** Token counts that models reported; `total` is `input` plus `output`. */
export interface Tokens extends TokenCounts {
  total: number;
}

/** What the models of a thread's nodes reported. */
export interface TokenUsage {
  total: Tokens;
  /** In the order in which the tasks first used any tokens. */
  byTask: (Tokens & { taskId: string })[];
  /** By node name: nodes of the same name in different graphs of the thread count as one. */
  byNode: (Tokens & { nodeName: string })[];
  /** Tokens of turns that were rewound since, if their rewinds were archived. Not part of `total`. */
  rewound: Tokens;
}

export function tokenUsageOf({ rows, rewound }: { rows: readonly TokenRow[]; rewound: TokenCounts }): TokenUsage {
  return {
    total: totalOf(rows),
    byTask: grouped(rows, ({ taskId }) => taskId).map(([taskId, of]) => ({ taskId, ...totalOf(of) })),
    byNode: grouped(rows, ({ nodeName }) => nodeName).map(([nodeName, of]) => ({ nodeName, ...totalOf(of) })),
    rewound: totalOf([rewound]),
  };
}

function grouped(rows: readonly TokenRow[], nameOf: (row: TokenRow) => string): [string, TokenRow[]][] {
  const groups = new Map<string, TokenRow[]>();
  for (const row of rows) {
    const group = groups.get(nameOf(row));
    if (group === undefined) groups.set(nameOf(row), [row]);
    else group.push(row);
  }
  return [...groups];
}

export function totalOf(counts: readonly TokenCounts[]): Tokens {
  const sum = { input: 0, output: 0, cached: 0, reasoning: 0 };
  for (const { input, output, cached, reasoning } of counts) {
    sum.input += input;
    sum.output += output;
    sum.cached += cached;
    sum.reasoning += reasoning;
  }
  return { ...sum, total: sum.input + sum.output };
}
