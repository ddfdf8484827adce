import { checkedOptions } from "./options";
import { type Page, pageOf, type PageOptions, rowsFor, textPage } from "./page";
import type { Store, ThreadRow } from "./store/store";

/** A thread, with how much is on it. */
export interface ThreadSummary {
  threadId: string;
  createdAt: Date;
  /** Number of rewinds and take-backs. */
  epoch: number;
  /** Live checkpoints over all namespaces. */
  checkpoints: number;
  turns: number;
  tasks: number;
}

/** The store reads so many at once. */
const THREADS_PER_PAGE = 100;

/** The threads of a database in the order of their ids. @throws {TurnsError} INVALID_OPTION */
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
