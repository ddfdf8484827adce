/*
 * What the server of `turns web` answers, route by route. Types only: the page imports them with `import type`.
 *
 * Every JSON document has `"format": 1`. Later versions add fields and never remove one. Times are ISO 8601 in UTC. A thread's id,
 * an effect's id and so on are percent-encoded in a path. Values of threads are plain JSON: what JSON doesn't know is an object
 * with one key that starts with `$`, such as `{ "$map": […] }`, `{ "$bigint": "7" }`, `{ "$bytes": 1024 }`.
 */
import type { TokenTotals } from "../inspection/totals";
import type { Answers } from "../inspection/answers";
import type { MessagesPage } from "../inspection/messages";
import type { GraphView } from "../inspection/graph";
import type { RewindLine } from "../inspection/rewinds";
import type { Shown } from "../inspection/shown";
import type { CheckpointLine } from "../inspection/checkpoint-line";
import type { BlameList } from "../inspection/states";
import type { ThreadReport } from "../inspection/status";
import type { Timeline } from "../inspection/timeline";
import type { Overview as DatabaseOverview, ThreadLine } from "../inspection/threads";
import type { AttemptDetails, EffectLine } from "../inspection/turns";
import type { ChannelSize } from "../inspection/totals";
import type { TokenCounts } from "../store/store";

export type { Answers, TimedSentence } from "../inspection/answers";
export type { ChatMessage, ToolCall } from "../inspection/messages";
export type { GraphDrift, GraphEdge, GraphNode, GraphView } from "../inspection/graph";
export type { RewindLine } from "../inspection/rewinds";
export type { Cut, Shown } from "../inspection/shown";
export type { CheckpointLine } from "../inspection/checkpoint-line";
export type { Blame } from "../inspection/states";
export type { Standing, ThreadState } from "../inspection/standing";
export type { ThreadReport } from "../inspection/status";
export type { Death, Diamond, Bar, Lane, Timeline, TimelineTask } from "../inspection/timeline";
export type { AttemptDetails, EffectLine } from "../inspection/turns";
export type { TokenCounts } from "../store/store";

interface Format {
  format: 1;
}

/** `GET /api/server`: what is served, and what may be done. Its cost doesn't grow with the database. */
export interface Server extends Format {
  /** The file, or where the database is. */
  database: string;
  /** On disk, or on the server. */
  bytes: number;
  /** The file's name without its folder, or the name of the database on its server. */
  name: string;
  engine: "sqlite" | "postgres";
  /** The version of the package. */
  version: string;
  /** Whether POST is allowed: `turns web --write`. */
  write: boolean;
  /** Whether a graph was given with `--graph`, so that a thread can be resumed and a question answered. */
  graph: boolean;
  theme: "auto" | "light" | "dark";
  /** How a command starts here, for those that begin with `turns`: `turns agent.db`. */
  program: string;
}

/** `GET /api/overview` */
export interface Overview extends Server, DatabaseOverview {}

/** A thread in the side list. */
export interface ListedThread extends ThreadLine {
  /** What tells it apart: its question, the node in flight, the error, or tasks and tokens. One line. */
  sentence: string;
  /** Whether it belongs under "Needs you". */
  needsYou: boolean;
  tasks: number;
  tokens: TokenCounts;
}

/** `GET /api/threads?status=running,waiting&search=…&sort=activity|created|turns|id&limit=50&cursor=…` */
export interface ThreadList extends Format {
  threads: ListedThread[];
  /** How many there are, before any filter. */
  total: number;
  /** For the next page; null on the last one. */
  cursor: string | null;
}

/** `GET /api/threads/:id` */
export interface Thread extends Format {
  /** The four answers as sentences. */
  answers: Answers;
  /** The four answers as data. */
  report: ThreadReport;
  counts: { tasks: number; turns: number; checkpoints: number; effects: number; rewinds: number };
  tokens: TokenCounts;
  /** Whether a resume is offered: nothing has to be answered, settled or finished first. */
  canResume: boolean;
  /** The command that serves a page on which it can be resumed; null if this one can do it. */
  start: string | null;
  startedAt: string;
  lastAt: string;
  /** All its tasks, oldest first: where a rewind can lead. */
  tasks: string[];
}

/** `GET /api/threads/:id/timeline?before=N&limit=N`; `before` is the `before` of the previous page, `limit` counts attempts. */
export interface TimelineAnswer extends Format, Timeline {}

/** `GET /api/threads/:id/turns/:turn`, by number or id. `&whole=1` cuts nothing. */
export interface TurnAnswer extends Format, Omit<AttemptDetails, "input" | "output" | "validation" | "effects"> {
  /** Null if it wasn't kept. */
  input: Shown | null;
  output: Shown | null;
  validation: Shown | null;
  effects: ShownEffect[];
  /** Its place among the thread's turns: the numbers of the attempts that began before and after it. */
  previous: number | null;
  next: number | null;
  /** The checkpoint that it started from, and the first one that has its output; null if it's gone, or not there yet. */
  startedFrom: CheckpointLine | null;
  endedIn: CheckpointLine | null;
}

/** An effect with what went in and what came out. */
export interface ShownEffect extends EffectLine {
  /** Its name and what tells it apart: "letter · number of keepers". */
  title: string;
  input: Shown | null;
  /** Its receipt. */
  result: Shown | null;
  error: { name: string; message: string; stack: string | null } | null;
  /** The pid of the process that performs it, or did last. */
  pid: number | null;
  /** The command that settles it; null if nothing is in doubt. */
  command: string | null;
  /** What a person should know, in a sentence: what happens to it on a resume. Null if it's simply done. */
  note: string | null;
}

/** `GET /api/threads/:id/state?at=PLACE&channel=NAME&whole=1`; `at` is a turn, a task, or a checkpoint's id or name. */
export interface State extends Format {
  threadId: string;
  checkpoint: CheckpointLine;
  channels: StateChannel[];
}

export interface StateChannel extends Shown {
  channel: string;
  /** Of a list. */
  elements: number | null;
}

/** `GET /api/threads/:id/diff?from=PLACE&to=PLACE&channel=NAME&whole=1`; without `from`, since the checkpoint before. */
export interface Diff extends Format {
  threadId: string;
  from: CheckpointLine;
  to: CheckpointLine;
  /** Only channels that differ. */
  channels: ChannelDiff[];
}

export interface ChannelDiff {
  channel: string;
  change: "added" | "removed" | "changed" | "appended";
  /** How many elements were appended. */
  appended: number | null;
  /** Of the differences: how many have a value after, and how many one before. A change counts as both. */
  added: number;
  removed: number;
  differences: DiffLine[];
  /** Whether there are more differences, or a value was cut. */
  cut: boolean;
  /** The address of the whole; null if nothing is missing. */
  whole: string | null;
}

export interface DiffLine {
  /** `items[2].text`; empty for the value itself. */
  path: string;
  change: "added" | "removed" | "changed";
  /** Missing if it was added. */
  before?: unknown;
  /** Missing if it was removed. */
  after?: unknown;
}

/** `GET /api/threads/:id/blame?channel=NAME&at=PLACE&limit=N&cursor=ID`: the newest changes first. */
export interface BlameAnswer extends Format, BlameList {
  /** The channels that can be asked for. */
  channels: string[];
}

/** `GET /api/threads/:id/messages?at=PLACE&channel=NAME&before=N&limit=N&whole=1`: the newest ones, oldest of them first. */
export interface Messages extends Format, MessagesPage {}

/** `GET /api/threads/:id/effects?limit=N&cursor=N`: the journal, oldest first. */
export interface Effects extends Format {
  effects: ShownEffect[];
  cursor: number | null;
}

/** `GET /api/threads/:id/rewinds`, newest first. */
export interface Rewinds extends Format {
  rewinds: (RewindLine & {
    /** How many effects it undid, as far as that was kept: they stay undone. */
    undone: number;
    /** Why it can't be taken back now; null if it can. */
    refused: { code: string; message: string } | null;
    /** The command that takes it back; null if that would be refused. */
    command: string | null;
  })[];
}

/** `GET /api/threads/:id/rewind?to=TASK&allow=1`: what it would do. `allow`: effects without an undo stay. Nothing is changed. */
export interface RewindPlan extends Format {
  threadId: string;
  toTask: string;
  /** Tasks that go. */
  tasks: string[];
  removed: { checkpoints: number; writes: number; turns: number; values: number; tasks: number; effects: number } | null;
  /** In the order in which they are undone. */
  effects: RewindEffect[];
  /** Why it would be refused now; null if it wouldn't. */
  refused: { code: string; message: string } | null;
  headline: string;
  text: string;
  command: string;
}

export interface RewindEffect {
  id: string;
  /** As of a {@link ShownEffect}. */
  title: string;
  name: string;
  label: string;
  nodeName: string;
  verdict: string;
  /** The verdict in words: "its undo is called". */
  words: string;
}

/** `GET /api/threads/:id/since?mark=MARK&effect=ID`: what came of a POST whose answer was lost. Without a mark: that of this moment. */
export interface Since extends Format {
  threadId: string;
  mark: string;
  /** In a sentence. */
  headline: string;
}

/** `GET /api/threads/:id/graph` */
export interface Graph extends Format, GraphView {
  threadId: string;
}

/** `GET /api/threads/:id/channels`: how much the newest checkpoint's channels take. */
export interface Channels extends Format {
  threadId: string;
  checkpointId: string;
  /** Largest first. */
  channels: ChannelSize[];
}

/** `GET /api/threads/:id/tokens` */
export interface Tokens extends Format {
  byNode: TokenTotals;
  byTask: TokenTotals;
}

/** `GET /api/search?q=TEXT&thread=ID` */
export interface SearchAnswer extends Format {
  matches: SearchMatch[];
  /** Why it stopped before the end: 100 matches were found, or 4 seconds had passed. Null: everything was searched. */
  stopped: "limit" | "time" | null;
  /** How many threads were searched to their end, of how many. */
  threads: { searched: number; total: number };
}

export interface SearchMatch {
  /** `thread` and `node`: the name matches. Otherwise the content of a value, a turn, an effect, or of what a node wrote. */
  kind: "thread" | "node" | "value" | "turn" | "effect" | "write";
  threadId: string;
  /** A place for `turn=` in the page's address; null for a whole thread. */
  number: number | null;
  near: string;
  excerpt: string;
}

/**
 * `GET /api/live?thread=ID`: server-sent events. Without a thread, all threads. Each has `id:`, which a browser sends back as
 * `Last-Event-ID`, so that nothing is lost; `?after=ID` does the same. The name of an event is its `type` here.
 */
export type LiveEvent =
  /**
   * First of all: from here on nothing is missed. `fresh`: what happened before isn't told, because there was no `Last-Event-ID`, or
   * the server has forgotten it. Ask again for all that is on screen.
   */
  | { type: "ready"; format: 1; fresh: boolean }
  | { type: "change"; change: LiveChange }
  /** The set of live processes may have changed: ask again for what is on screen. */
  | { type: "runs"; running: string[] }
  /** The database can't be read now. `gone`: the file was removed or replaced, and this page can't go on. */
  | { type: "problem"; code: string; message: string; gone: boolean };

/** What was saved or removed, by any process. `number` is its place on the thread. */
export interface LiveChange {
  kind: "turn" | "checkpoint" | "effect" | "rewind" | "pruned" | "deleted";
  threadId: string;
  number: number;
  /** A line for a list: "work_b started", "letter is in doubt". */
  words: string;
  node: string | null;
  taskId: string | null;
  at: string | null;
}

/** The body of every POST. Only with `--write`. */
export interface Confirmed {
  /** The id of the thread, as the person typed it. */
  confirm: string;
}

/** `POST /api/threads/:id/resume`. Needs `--graph`. */
export type ResumeRequest = Confirmed;

/** `POST /api/threads/:id/answer`. Needs `--graph`. */
export interface AnswerRequest extends Confirmed {
  /** The id of the question; null for the only open one if it has none: an older LangGraph gave it no id. */
  interruptId: string | null;
  /** Any JSON. */
  value: unknown;
}

/** `POST /api/threads/:id/rewind` */
export interface RewindRequest extends Confirmed {
  toTask: string;
  /** Leaves effects without an undo as they are. */
  allowUncompensated?: boolean;
}

/** `POST /api/rewinds/:id/take-back` */
export interface TakeBackRequest extends Confirmed {
  /** Also if it undid effects: they stay undone. */
  despiteUndone?: boolean;
}

/** `POST /api/effects/:id/resolve` */
export interface ResolveRequest extends Confirmed {
  outcome: "done" | "not-done" | "history" | "undo-done" | "undo-not-done";
  /** With `done`: what its function would have returned. Any JSON. */
  result?: unknown;
}

/** What a POST did. */
export interface Done extends Format {
  /** What happened, in a sentence. */
  headline: string;
  /** The command that takes it back; null if nothing does. */
  command: string | null;
  /** A resume and an answer return when the run has begun: what it does comes over `/api/live`. */
  running: boolean;
}

/** Every answer that isn't 2xx: 400, 401, 403, 404, 405, 409, 413, 415, 421, 500, 503. */
export interface Failure {
  error: { code: string; message: string; data: Record<string, unknown> };
}
