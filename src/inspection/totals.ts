import type { BaseTurnSaver } from "../base-saver";
import { TurnsError } from "../errors";
import { internalsOf } from "../internals";
import type { TableSize, ThreadSize } from "../store/inspection";
import type { TokenCounts } from "../store/store";
import { totalOf } from "../turns/tokens";
import type { Turn } from "../turns/turn";
import { checkpointNamed, paged } from "./place";

/** How much is stored, and for what. */
export interface Sizes {
  database: string;
  /** On disk, with indexes, free space and the log. */
  bytes: number;
  freeBytes: number;
  tables: readonly TableSize[];
  /** The largest ones. */
  threads: readonly ThreadSize[];
}

export async function sizes(saver: BaseTurnSaver, limit = 10): Promise<Sizes> {
  const { store } = internalsOf(saver);
  const { bytes, freePages, pageBytes } = await store.space();
  const tables = (await store.inspect.tableSizes()).toSorted((left, right) => right.bytes - left.bytes);
  return {
    database: store.name,
    bytes,
    freeBytes: freePages * pageBytes,
    tables,
    threads: await store.inspect.threadSizes(limit),
  };
}

export interface ChannelSize {
  channel: string;
  bytes: number;
  /** Of a list. */
  elements: number | null;
}

export interface ThreadChannels {
  threadId: string;
  checkpointId: string;
  /** Largest first. */
  channels: readonly ChannelSize[];
}

/** How much the channels of a thread's newest checkpoint take. @throws {TurnsError} CHECKPOINT_NOT_FOUND */
export async function channelSizes(saver: BaseTurnSaver, threadId: string): Promise<ThreadChannels> {
  const head = await checkpointNamed(saver, threadId, undefined);
  const found = [...(await internalsOf(saver).store.inspect.channelSizes(head))];
  const channels = found.map(([channel, { bytes, elements = null }]) => ({ channel, bytes, elements }));
  return { threadId, checkpointId: head.checkpointId, channels: channels.sort((left, right) => right.bytes - left.bytes) };
}

export type TokensBy = "thread" | "node" | "task" | "day";

export interface TokenLine extends TokenCounts {
  /** The thread, node, task or day. */
  of: string;
  total: number;
  /** By the prices that were given, in their currency. */
  cost?: number;
}

export interface TokenTotals {
  by: TokensBy;
  lines: readonly TokenLine[];
  total: TokenLine;
  /** Of turns that were rewound since. Not part of the total; undefined if there are none, and by day. */
  rewound?: TokenLine;
  /** Threads that couldn't be read, and so aren't counted. */
  damaged: readonly { threadId: string; code: string; message: string }[];
}

/** Prices of a million tokens. Cached tokens are a part of the input, reasoning tokens of the output. */
export interface Prices {
  input: number;
  output: number;
  /** Default: the price of the input. */
  cached?: number | undefined;
}

const PAGE = 500;
/** Turns have their content with them. */
const TURNS_PAGE = 100;
const MILLION = 1_000_000;

/**
 * What the models reported, most first. Tokens of pruned turns are included, except by day.
 *
 * @param threadIds the threads to sum up; undefined: all, without those that are damaged
 * @throws {TurnsError} CHECKPOINT_CORRUPTED for a damaged one of `threadIds`
 */
export async function tokenTotals(
  saver: BaseTurnSaver,
  by: TokensBy,
  { threadIds, prices }: { threadIds?: readonly string[] | undefined; prices?: Prices | undefined } = {},
): Promise<TokenTotals> {
  const sums = new Map<string, TokenCounts>();
  let rewound = totalOf([]);
  const damaged: { threadId: string; code: string; message: string }[] = [];
  for await (const threadId of threadIds ?? idsOf(saver)) {
    try {
      const found = await tokensOf(saver, threadId, by);
      for (const [of, counts] of found.counts) addTo(sums, of, counts);
      rewound = totalOf([rewound, found.rewound]);
    } catch (error) {
      if (threadIds !== undefined || !TurnsError.is(error, "CHECKPOINT_CORRUPTED")) throw error;
      damaged.push({ threadId, code: error.code, message: error.message });
    }
  }
  const lines = [...sums].map(([of, counts]) => lineOf(of, counts, prices));
  const order =
    by === "day"
      ? lines.toSorted((one, other) => (one.of < other.of ? 1 : -1))
      : lines.toSorted((one, other) => other.total - one.total);
  const sum = (name: keyof TokenCounts): number => lines.reduce((total, line) => total + line[name], 0);
  const all = { input: sum("input"), output: sum("output"), cached: sum("cached"), reasoning: sum("reasoning") };
  const total = lineOf("total", all, prices);
  const undone = rewound.input + rewound.output > 0 && { rewound: lineOf("rewound", rewound, prices) };
  return { by, lines: order, total, ...undone, damaged };
}

interface TokensOfThread {
  counts: Iterable<[of: string, TokenCounts]>;
  rewound: TokenCounts;
}

function addTo(sums: Map<string, TokenCounts>, of: string, counts: TokenCounts): void {
  sums.set(of, totalOf([sums.get(of) ?? totalOf([]), counts]));
}

/** Of one thread, read whole before it's added: a damaged one counts for nothing. */
async function tokensOf(saver: BaseTurnSaver, threadId: string, by: TokensBy): Promise<TokensOfThread> {
  if (by === "day") {
    const days = new Map<string, TokenCounts>();
    const turns = paged(
      (last: Turn | undefined) => saver.turns.list(threadId, { after: last?.seq ?? 0, limit: TURNS_PAGE }),
      TURNS_PAGE,
    );
    for await (const { turnType, createdAt, tokens } of turns)
      if (turnType === "Thought" && tokens.input + tokens.output > 0) addTo(days, createdAt.toISOString().slice(0, 10), tokens);
    return { counts: days, rewound: totalOf([]) };
  }
  const { total, byNode, byTask, rewound } = await saver.turns.tokenUsage(threadId);
  const found = {
    thread: () => [{ of: threadId, ...total }],
    node: () => byNode.map(({ nodeName: of, ...counts }) => ({ of, ...counts })),
    task: () => byTask.map(({ taskId: of, ...counts }) => ({ of, ...counts })),
  }[by]();
  return { counts: found.filter((one) => one.total > 0).map(({ of, ...counts }) => [of, counts]), rewound };
}

function lineOf(of: string, counts: TokenCounts, prices: Prices | undefined): TokenLine {
  const { input, output, cached } = counts;
  const line = { of, ...counts, total: input + output };
  if (prices === undefined) return line;
  const cost = (input - cached) * prices.input + cached * (prices.cached ?? prices.input) + output * prices.output;
  return { ...line, cost: Math.round(cost) / MILLION };
}

async function* idsOf(saver: BaseTurnSaver): AsyncGenerator<string> {
  const { store } = internalsOf(saver);
  const pages = paged(
    (last: { threadId: string } | undefined) => store.inspect.activity({ after: last?.threadId, limit: PAGE }),
    PAGE,
  );
  for await (const { threadId } of pages) yield threadId;
}
