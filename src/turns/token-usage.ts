import type { TokenCounts, TokenRow } from "../store/store";

/** What models reported; `total` is `input` and `output` together. */
export interface Tokens extends TokenCounts {
  total: number;
}

/** What the models of a thread's nodes reported. */
export interface TokenUsage {
  total: Tokens;
  /** In the order in which the tasks first used any node. */
  byTask: (Tokens & { taskId: string })[];
  /** By name: nodes of the same name in different graphs of the thread count as one. */
  byNode: (Tokens & { nodeName: string })[];
  /** What turns used that were rewound since, as far as their rewinds were archived; not a part of `total`. */
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

function totalOf(counts: readonly TokenCounts[]): Tokens {
  const sum = { input: 0, output: 0, cached: 0, reasoning: 0 };
  for (const { input, output, cached, reasoning } of counts) {
    sum.input += input;
    sum.output += output;
    sum.cached += cached;
    sum.reasoning += reasoning;
  }
  return { ...sum, total: sum.input + sum.output };
}
