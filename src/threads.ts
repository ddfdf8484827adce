import { checkedOptions } from "./options";
import { type Page, pageOf, type PageOptions, rowsFor, textPage } from "./page";
import type { Store, ThreadRow } from "./store/store";

/** A thread and how much is on it. */
export interface ThreadSummary {
  threadId: string;
  createdAt: Date;
  /** How many rewinds and take-backs the thread has had. */
  epoch: number;
  /** Live checkpoints in all namespaces. */
  checkpoints: number;
  turns: number;
  tasks: number;
}

/** How many threads the store reads at once. */
const THREADS_PER_PAGE = 100;

/** Lists the threads of a database, ordered by id. @throws {TurnsError} INVALID_OPTION */
export async function listThreads(store: Store, options: PageOptions<string>): Promise<Page<ThreadSummary, string>> {
  const { after, limit } = checkedOptions(textPage, options);
  const wanted = rowsFor(limit) ?? Infinity;
  const rows: ThreadRow[] = [];
  for (let last = after; rows.length < wanted; last = rows.at(-1)?.threadId) {
    const size = Math.min(THREADS_PER_PAGE, wanted - rows.length);
    const page = await store.listThreads({ after: last, limit: size });
    rows.push(...page);
    if (page.length < size) break;
  }
  return pageOf(rows.map(toSummary), limit, ({ threadId }) => threadId);
}

function toSummary({ threadId, createdAt, epoch, checkpoints, turns, tasks }: ThreadRow): ThreadSummary {
  return { threadId, createdAt: new Date(createdAt), epoch, checkpoints, turns, tasks };
}
