import type { BaseTurnSaver } from "../base-saver";
import { internalsOf } from "../internals";
import type { StoredText, ThreadActivity } from "../store/inspection";
import { headUpTo, numberOf, paged, turnBefore } from "./place";
import { othersFirst } from "../timers";

/** A text that was found. */
export interface Match {
  threadId: string;
  /** What has it: a value of the state, a turn's input or output, an effect, or what a node wrote. */
  kind: StoredText["kind"];
  /** The turn that has it, or the nearest one before. If there is none, the first checkpoint behind. */
  number: number;
  /** The node of that turn; for an effect its name. */
  near: string;
  /** The text around the first occurrence. */
  excerpt: string;
}

interface SearchRequest {
  pattern: RegExp;
  /** Default: all threads, the one that was saved to last first. */
  threadId?: string | undefined;
  limit?: number;
  /** Stops the search. */
  signal?: AbortSignal | undefined;
}

/** How far a search came. */
interface Searched {
  /** Why it stopped before the end: `limit` of matches, or its signal. Null: everything was searched. */
  stopped: "limit" | "signal" | null;
  /** How many threads were searched to their end, of how many. */
  threads: { searched: number; total: number };
}

const PAGE = 200;
const AROUND = 40;
/** Of two texts, so much before and after the matches is compared. */
const SAYING = 200;
/** How many matches of one text are compared. One that has more is told again. */
const MATCHES = 1_000;
/** What a node returned is in its turn, in its writes, and then in the state: the first of these that has a text tells it. */
const KINDS = ["turn", "effect", "write", "value"] as const;
/** So many characters are about read at once. One text can be longer. */
const AT_ONCE = 1_000_000;
/** The event loop runs at least this often, so that others are served and a timer can stop the search. */
const TURN_MS = 20;

/**
 * Searches the content of threads: states, messages, inputs, outputs, errors and effects. Each stored text is searched once, even
 * if many checkpoints have it, and a text that passes from a turn into the state is told once.
 */
export async function* search(saver: BaseTurnSaver, request: SearchRequest): AsyncGenerator<Match, Searched> {
  const { pattern, threadId, limit = 100, signal } = request;
  const ids = threadId === undefined ? await allThreads(saver) : [threadId];
  const end = (stopped: Searched["stopped"], searched: number): Searched => ({
    stopped,
    threads: { searched, total: ids.length },
  });
  let left = limit;
  let since = performance.now();
  for (const [index, id] of ids.entries()) {
    const before = left;
    const told = new Set<string>();
    for (const kind of KINDS) {
      for await (const { seq, text, name } of textsOf(saver, id, kind)) {
        if (performance.now() - since > TURN_MS) {
          await othersFirst();
          since = performance.now();
        }
        if (signal?.aborted === true) return end("signal", index);
        const matches = found(pattern, text);
        const mayBeTold = (kind === "write" || kind === "value") && matches.length < MATCHES;
        const match = mayBeTold ? matches.find(({ saying }) => !told.has(saying)) : matches[0];
        if (match === undefined) continue;
        if (kind !== "effect") for (const { saying } of matches) told.add(saying);
        const turn = kind === "turn" ? { near: "", number: numberOf(seq) } : await nearest(saver, id, seq);
        yield { threadId: id, kind, ...turn, ...(name !== undefined && { near: name }), excerpt: match.excerpt() };
        left -= 1;
        if (left <= 0) return end("limit", index);
      }
    }
    if (left < before) continue;
    for await (const match of shortValues(saver, id, pattern)) {
      yield match;
      left -= 1;
      if (left <= 0) return end("limit", index);
    }
  }
  return end(null, ids.length);
}

/** All texts of a kind. The longer they are, the fewer are read at once. */
async function* textsOf(saver: BaseTurnSaver, threadId: string, kind: Match["kind"]): AsyncGenerator<StoredText> {
  const { store } = internalsOf(saver);
  let limit = 1;
  for (let afterSeq = 0; ;) {
    const texts = await store.inspect.texts({ threadId, kind, afterSeq, limit });
    yield* texts;
    const last = texts.at(-1);
    if (last === undefined || texts.length < limit) return;
    afterSeq = last.seq;
    const length = texts.reduce((sum, { text }) => sum + text.length, 0) / texts.length;
    limit = Math.max(1, Math.min(PAGE, 4 * limit, Math.floor(AT_ONCE / length)));
  }
}

/**
 * Short values of the newest checkpoint: they are stored with it, and else only with the turn that wrote them. They are for threads
 * in which nothing else matches, such as one whose turns were pruned.
 */
async function* shortValues(saver: BaseTurnSaver, threadId: string, pattern: RegExp): AsyncGenerator<Match> {
  const head = await headUpTo(saver, threadId, undefined, "");
  for (const [channel, { pointer }] of head?.channels ?? []) {
    const [match] = pointer?.kind === "inline" ? found(pattern, pointer.text) : [];
    if (head !== undefined && match !== undefined)
      yield { threadId, kind: "value", number: numberOf(head.position), near: channel, excerpt: match.excerpt() };
  }
}

async function allThreads(saver: BaseTurnSaver): Promise<string[]> {
  const { store } = internalsOf(saver);
  const all: ThreadActivity[] = [];
  const pages = paged((last: ThreadActivity | undefined) => store.inspect.activity({ after: last?.threadId, limit: PAGE }), PAGE);
  for await (const thread of pages) all.push(thread);
  return all.sort((left, right) => (left.lastAt > right.lastAt ? -1 : 1)).map(({ threadId }) => threadId);
}

/**
 * Matches what people see: in JSON text, line ends and quotes are escaped.
 *
 * @returns of the first matches, the text around each and the quoted text that has it; empty if nothing matches
 */
function found(pattern: RegExp, json: string): { excerpt: () => string; saying: string }[] {
  const text = json.replaceAll("\\n", "\n").replaceAll('\\"', '"');
  const matches: ReturnType<typeof found> = [];
  for (const { 0: matched, index } of text.matchAll(new RegExp(pattern, `${pattern.flags.replace("g", "")}g`))) {
    const end = index + matched.length;
    const from = Math.max(0, index - AROUND);
    const upto = Math.min(text.length, end + AROUND);
    const [before = ""] = /[^"]*$/.exec(text.slice(Math.max(0, index - SAYING), index)) ?? [];
    const [after = ""] = /^[^"]*/.exec(text.slice(end, end + SAYING)) ?? [];
    const excerpt = (): string =>
      `${from > 0 ? "…" : ""}${text.slice(from, upto)}${upto < text.length ? "…" : ""}`.replaceAll(/\s+/g, " ");
    matches.push({ excerpt, saying: before + matched + after });
    if (matches.length === MATCHES) break;
  }
  return matches;
}

/** A commit saves an Action, and then the values of the next checkpoint. */
async function nearest(saver: BaseTurnSaver, threadId: string, seq: number): Promise<Pick<Match, "near" | "number">> {
  const before = await turnBefore(saver, threadId, seq);
  if (before?.seq !== undefined) return { near: before.nodeName, number: numberOf(before.seq) };
  const behind = await internalsOf(saver).store.inspect.checkpointBehind({ threadId, ns: "", seq });
  return { near: "input", number: numberOf(behind?.position ?? seq) };
}
