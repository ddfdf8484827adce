import type { BaseTurnSaver } from "../base-saver";
import { internalsOf } from "../internals";
import type { StoredText, ThreadActivity } from "../store/inspection";
import type { TurnRow } from "../store/store";
import { numberOf, paged } from "./place";

/** A text that was found. */
export interface Match {
  threadId: string;
  /** What has it: a value of the state, a turn's input or output, an effect, or what a node wrote. */
  kind: StoredText["kind"];
  /** Its place in the thread's order. */
  number: number;
  /** The node of the nearest turn; for an effect its name. */
  near: string;
  /** The text around the first occurrence. */
  excerpt: string;
}

export interface SearchRequest {
  pattern: RegExp;
  /** Default: all threads, the one that was saved to last first. */
  threadId?: string | undefined;
  limit?: number;
}

const PAGE = 200;
const AROUND = 40;
const KINDS = ["value", "turn", "effect", "write"] as const;

/**
 * Searches the content of threads: states, messages, inputs, outputs, errors and effects. Each stored text is searched once, even
 * if many checkpoints have it.
 */
export async function* search(saver: BaseTurnSaver, { pattern, threadId, limit = 100 }: SearchRequest): AsyncGenerator<Match> {
  const { store } = internalsOf(saver);
  let left = limit;
  for (const id of threadId === undefined ? await allThreads(saver) : [threadId]) {
    for (const kind of KINDS) {
      const texts = paged(
        (last: StoredText | undefined) => store.inspect.texts({ threadId: id, kind, afterSeq: last?.seq ?? 0, limit: PAGE }),
        PAGE,
      );
      for await (const { seq, text, name } of texts) {
        const excerpt = found(pattern, text);
        if (excerpt === undefined) continue;
        yield { threadId: id, kind, number: numberOf(seq), near: name ?? (await nearest(saver, id, seq)), excerpt };
        left -= 1;
        if (left <= 0) return;
      }
    }
  }
}

async function allThreads(saver: BaseTurnSaver): Promise<string[]> {
  const { store } = internalsOf(saver);
  const all: ThreadActivity[] = [];
  const pages = paged((last: ThreadActivity | undefined) => store.inspect.activity({ after: last?.threadId, limit: PAGE }), PAGE);
  for await (const thread of pages) all.push(thread);
  return all.sort((left, right) => (left.lastAt > right.lastAt ? -1 : 1)).map(({ threadId }) => threadId);
}

/** Matches what people see: in JSON text, line ends and quotes are escaped. */
function found(pattern: RegExp, json: string): string | undefined {
  const text = json.replaceAll("\\n", "\n").replaceAll('\\"', '"');
  const match = pattern.exec(text);
  if (match === null) return undefined;
  const from = Math.max(0, match.index - AROUND);
  const upto = Math.min(text.length, match.index + match[0].length + AROUND);
  return `${from > 0 ? "…" : ""}${text.slice(from, upto)}${upto < text.length ? "…" : ""}`.replaceAll(/\s+/g, " ");
}

/** A commit saves an Action, and then the values of the next checkpoint. */
async function nearest(saver: BaseTurnSaver, threadId: string, seq: number): Promise<string> {
  const { store } = internalsOf(saver);
  const [before]: readonly (TurnRow | undefined)[] = await store.inspect.turnsBefore({ threadId, beforeSeq: seq, limit: 1 });
  return before?.nodeName ?? "input";
}
