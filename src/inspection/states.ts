import { isDeepStrictEqual } from "node:util";
import type { BaseTurnSaver } from "../base-saver";
import { describe, TurnsError } from "../errors";
import { internalsOf } from "../internals";
import type { CheckpointHead, Pointer, TurnRow } from "../store/store";
import { withoutBookkeeping } from "../turns/turn";
import { nearestName } from "../unknown-option";
import { type CheckpointLine, lineOf } from "./checkpoint-line";
import { type Difference, differencesOf } from "./differences";
import { checkpointNamed, headsOf, headUpTo, headWithId, numberOf } from "./place";
import { plain } from "./plain";
import { thoughtOf } from "./turns";

export interface StateAt {
  threadId: string;
  checkpoint: CheckpointLine;
  /** By channel, as JSON. Channels with LangGraph's bookkeeping are left out. */
  state: Record<string, unknown>;
}

/**
 * The state of a thread; at a turn of a nested graph, the state of that graph.
 *
 * @param at a turn's number or id, a task, a checkpoint's id or name; undefined: the newest
 * @throws {TurnsError} CHECKPOINT_NOT_FOUND; INVALID_OPTION for a channel that isn't there
 */
export async function stateAt(saver: BaseTurnSaver, threadId: string, at?: string, channel?: string): Promise<StateAt> {
  const head = await checkpointNamed(saver, threadId, at, "all");
  const values = await valuesOf(saver, channel === undefined ? head : only(head, [channel]));
  const state = channel === undefined ? stateIn(values) : { [channel]: values[channel] };
  if (channel !== undefined && head.channels.get(channel)?.pointer === undefined) throw noChannel(head, channel);
  return { threadId, checkpoint: lineOf(head), state: plain(state) as Record<string, unknown> };
}

export function only(head: CheckpointHead, channels: readonly string[]): CheckpointHead {
  const kept = [...head.channels].map(
    ([name, entry]) => [name, channels.includes(name) ? entry : { ...entry, pointer: undefined }] as const,
  );
  return { ...head, channels: new Map(kept) };
}

/** The values of a checkpoint, without what nodes have written on it since. */
export async function valuesOf(saver: BaseTurnSaver, head: CheckpointHead): Promise<Record<string, unknown>> {
  const tuple = await internalsOf(saver).readHead(head, "none");
  return tuple?.checkpoint.channel_values ?? {};
}

export function noChannel(head: CheckpointHead, channel: string): TurnsError {
  const names = namesOf(head);
  const nearest = nearestName(channel, names);
  return new TurnsError("INVALID_OPTION", {
    problem: `Checkpoint ${head.checkpointId} has no value in channel ${describe(channel)}.`,
    remedy: `${nearest === undefined ? "" : `Did you mean ${describe(nearest)}? `}Its channels: ${names.join(", ")}.`,
    data: { option: "channel", nearest },
  });
}

/** The channels with state that have a value. */
export function namesOf(head: CheckpointHead): string[] {
  const all = [...head.channels].filter(([, { pointer }]) => pointer !== undefined).map(([name]) => name);
  return Object.keys(stateIn(Object.fromEntries(all.map((name) => [name, true])))).sort();
}

/** A functional graph keeps what it returned. */
const RETURNED = "__end__";

function stateIn(values: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return { ...withoutBookkeeping(values), ...(Object.hasOwn(values, RETURNED) && { [RETURNED]: values[RETURNED] }) };
}

/** How a channel differs between two checkpoints. */
export interface ChannelDifference {
  channel: string;
  change: "added" | "removed" | "changed" | "appended";
  /** How many elements were appended. */
  appended?: number;
  differences: readonly Difference[];
}

export interface StateDifference {
  threadId: string;
  from: CheckpointLine;
  to: CheckpointLine;
  channels: readonly ChannelDifference[];
}

/**
 * What changed between two places of a thread. Only channels whose stored content differs are read. Places of two graphs are compared
 * by the state of the outermost one, as it was then.
 *
 * @param from as for {@link stateAt}; undefined: the checkpoint before `to`
 * @throws {TurnsError} CHECKPOINT_NOT_FOUND
 */
export async function differenceBetween(
  saver: BaseTurnSaver,
  threadId: string,
  from?: string,
  to?: string,
): Promise<StateDifference> {
  const [before, after] = await placesOf(saver, threadId, from, to);
  const names = [...new Set([...namesOf(before), ...namesOf(after)])].sort();
  const changed = names.filter((name) => !isSame(before.channels.get(name)?.pointer, after.channels.get(name)?.pointer));
  const grown = new Map(
    changed.map((channel) => [
      channel,
      commonLength(before.channels.get(channel)?.pointer, after.channels.get(channel)?.pointer),
    ]),
  );
  const others = changed.filter((channel) => grown.get(channel) === undefined);
  const [old, now] = await Promise.all([valuesOf(saver, only(before, others)), valuesOf(saver, only(after, changed))]);
  const channels = changed.map((channel): ChannelDifference => {
    const length = grown.get(channel);
    if (length !== undefined) return appendedTo(channel, now[channel] as readonly unknown[], length);
    const [was, is] = [plain(old[channel]), plain(now[channel])];
    if (before.channels.get(channel)?.pointer === undefined)
      return { channel, change: "added", differences: [{ path: "", change: "added", after: is }] };
    if (after.channels.get(channel)?.pointer === undefined)
      return { channel, change: "removed", differences: [{ path: "", change: "removed", before: was }] };
    const differences = differencesOf(was, is);
    const isLonger = Array.isArray(was) && Array.isArray(is) && is.length > was.length;
    if (isLonger && isDeepStrictEqual(is.slice(0, was.length), was))
      return { channel, change: "appended", appended: is.length - was.length, differences };
    return { channel, change: "changed", differences };
  });
  return {
    threadId,
    from: lineOf(before),
    to: lineOf(after),
    channels: channels.filter(({ differences }) => differences.length > 0),
  };
}

async function placesOf(
  saver: BaseTurnSaver,
  threadId: string,
  from: string | undefined,
  to: string | undefined,
): Promise<[before: CheckpointHead, after: CheckpointHead]> {
  const after = await checkpointNamed(saver, threadId, to, "all");
  if (from === undefined) return [await checkpointBefore(saver, after), after];
  const before = await checkpointNamed(saver, threadId, from, "all");
  if (before.ns === after.ns) return [before, after];
  const outermost = async (head: CheckpointHead): Promise<CheckpointHead> =>
    head.ns === "" ? head : ((await headUpTo(saver, threadId, head.position, "")) ?? head);
  return [await outermost(before), await outermost(after)];
}

/** The first checkpoint has none before it: then it's compared with itself. @throws {TurnsError} CHECKPOINT_NOT_FOUND */
async function checkpointBefore(saver: BaseTurnSaver, head: CheckpointHead): Promise<CheckpointHead> {
  const { threadId, ns, checkpointId, parentId = checkpointId } = head;
  const found = await headWithId(saver, threadId, parentId, ns);
  if (found !== undefined) return found;
  throw new TurnsError("CHECKPOINT_NOT_FOUND", {
    problem: `The checkpoint before ${checkpointId} was removed, so nothing tells what changed since.`,
    remedy: `Name another one to compare with: turns diff ${threadId} FROM TO.`,
    data: { threadId, checkpointId: parentId },
  });
}

/** The length of a list that only grew since, as its address tells; undefined for anything else. */
function commonLength(before: Pointer | undefined, after: Pointer | undefined): number | undefined {
  if (before?.kind !== "list" || after?.kind !== "list" || before.list !== after.list) return undefined;
  return after.length > before.length ? before.length : undefined;
}

function appendedTo(channel: string, list: readonly unknown[], from: number): ChannelDifference {
  const added = plain(list.slice(from)) as unknown[];
  const differences = added.map((after, index): Difference => ({ path: `[${from + index}]`, change: "added", after }));
  return { channel, change: "appended", appended: added.length, differences };
}

/** Whether two channels have the same content, as their addresses tell. */
function isSame(left: Pointer | undefined, right: Pointer | undefined): boolean {
  if (left === undefined || right === undefined) return left === right;
  if (left.kind === "inline") return right.kind === "inline" && right.text === left.text;
  if (left.kind === "whole") return right.kind === "whole" && right.address === left.address;
  return right.kind === "list" && right.length === left.length && right.digest === left.digest;
}

/** A change of a channel, and who made it. */
export interface Blame {
  number: number;
  checkpointId: string;
  step: number;
  at: string;
  /** `input`, `update` or `fork`; `loop` for a step of the graph. */
  source: string;
  /** Nodes that wrote it; empty for an input. */
  nodes: readonly { node: string; number: number | null; attempt: number | null }[];
  /** `earlier`: it was written there or before, in checkpoints that were removed. */
  change: "first" | "earlier" | "appended" | "changed" | "removed";
  /** Of a list: the elements that were appended, the first and the one behind the last. */
  elements?: readonly [from: number, upto: number];
}

export interface BlameList {
  threadId: string;
  channel: string;
  changes: Blame[];
  /** Whether there may be earlier changes. */
  more: boolean;
  /** The id of a checkpoint: for the page of earlier changes. Null on the last page. */
  cursor: string | null;
}

interface BlameRequest {
  /** A place, as for {@link stateAt}: only changes up to there, in its graph. Undefined: the newest checkpoint. */
  at?: string | undefined;
  limit?: number | undefined;
  /** The `cursor` of the previous page. */
  cursor?: string | undefined;
}

/**
 * Who changed a channel, newest change first. Addresses tell what changed, so large values aren't read.
 *
 * @throws {TurnsError} CHECKPOINT_NOT_FOUND; INVALID_OPTION for a channel that isn't there
 */
export async function blameOf(
  saver: BaseTurnSaver,
  threadId: string,
  channel: string,
  { at, limit = 50, cursor }: BlameRequest = {},
): Promise<BlameList> {
  const newest = await checkpointNamed(saver, threadId, at, "all");
  if (!newest.channels.has(channel)) throw noChannel(newest, channel);
  const changes: Blame[] = [];
  const from = await headWithId(saver, threadId, cursor ?? newest.checkpointId, newest.ns);
  if (from === undefined && cursor !== undefined) throw noCursor(threadId, cursor);
  let head: CheckpointHead | undefined = from;
  for await (const older of headsOf(saver, threadId, newest.ns, from?.place)) {
    if (head !== undefined && head.parentId === older.checkpointId) {
      const change = await changeOf(saver, head, older, channel);
      if (change !== undefined) changes.push(change);
      if (changes.length >= limit) return { threadId, channel, changes, more: true, cursor: older.checkpointId };
    }
    // Checkpoints of other branches lie between.
    if (head === undefined || head.parentId === older.checkpointId) head = older;
  }
  const first = head?.channels.get(channel)?.pointer;
  if (head !== undefined && first !== undefined) {
    const oldest = blamed(head, first, undefined, []);
    changes.push(head.parentId === undefined ? oldest : { ...oldest, change: "earlier" });
  }
  return { threadId, channel, changes, more: false, cursor: null };
}

function noCursor(threadId: string, cursor: string): TurnsError {
  return new TurnsError("CHECKPOINT_NOT_FOUND", {
    problem: `Thread ${describe(threadId)} has no checkpoint ${describe(cursor)} any more.`,
    remedy: "Start again without a cursor.",
    data: { threadId, checkpointId: cursor },
  });
}

async function changeOf(
  saver: BaseTurnSaver,
  head: CheckpointHead,
  parent: CheckpointHead,
  channel: string,
): Promise<Blame | undefined> {
  const [after, before] = [head, parent].map(({ channels }) => channels.get(channel)?.pointer);
  if (isSame(before, after)) return undefined;
  const { store } = internalsOf(saver);
  const { threadId, ns } = parent;
  const writers = (await store.inspect.writers(threadId, ns, parent.checkpointId)).filter(({ channels }) =>
    channels.includes(channel),
  );
  const ids = [...new Set(writers.map(({ nodeTaskId }) => nodeTaskId))];
  const turns = await store.inspect.turnsOfNodeTasks(threadId, ids);
  const turnOf = new Map(turns.map((turn) => [turn.nodeTaskId, turn]));
  const isInput = parent.source === "input" && turns.length === 0;
  const nodes: Blame["nodes"][number][] = [];
  if (!isInput) for (const id of ids) nodes.push(await nodeOf(saver, turnOf.get(id)));
  const change = blamed(isInput ? { ...head, source: "input" } : head, after, before, nodes);
  return change.change === "changed" ? { ...change, ...(await appendedIn(saver, head, parent, channel)) } : change;
}

/** Whether a list only grew, although it isn't stored as one, or not as the same one. */
async function appendedIn(
  saver: BaseTurnSaver,
  head: CheckpointHead,
  parent: CheckpointHead,
  channel: string,
): Promise<Partial<Blame>> {
  const [before, after] = [parent, head].map(({ channels }) => channels.get(channel)?.pointer);
  if (before?.kind === "list" && after?.kind === "list") {
    const isLonger = after.length > before.length;
    const common = isLonger ? await internalsOf(saver).store.inspect.commonPrefix(head.threadId, before, after) : 0;
    return isLonger && common === before.length ? { change: "appended", elements: [before.length, after.length] } : {};
  }
  for (const pointer of [before, after]) if (!(await mayBeList(saver, head.threadId, pointer))) return {};
  const [was, is] = await Promise.all(
    [parent, head].map(async (at) => plain((await valuesOf(saver, only(at, [channel])))[channel])),
  );
  if (!Array.isArray(was) || !Array.isArray(is) || is.length <= was.length) return {};
  if (!isDeepStrictEqual(is.slice(0, was.length), was)) return {};
  return { change: "appended", elements: [was.length, is.length] };
}

/** Whether a value may be a list, as the beginning of its text tells. A long text is no list: those are stored as lists. */
async function mayBeList(saver: BaseTurnSaver, threadId: string, pointer: Pointer | undefined): Promise<boolean> {
  if (pointer === undefined || pointer.kind === "list") return pointer !== undefined;
  const text =
    pointer.kind === "inline" ? pointer.text : await internalsOf(saver).store.inspect.shortText(threadId, pointer.address);
  // A serde of the user may have written a list.
  return text !== undefined && (text.startsWith("[") || text.startsWith('{"~"'));
}

async function nodeOf(saver: BaseTurnSaver, turn: TurnRow | undefined): Promise<Blame["nodes"][number]> {
  if (turn === undefined) return { node: "", number: null, attempt: null };
  // An attempt has the number of its Thought wherever it's named.
  const { seq = 0 } = (turn.turnType === "Action" ? await thoughtOf(saver, turn) : undefined) ?? turn;
  return { node: turn.nodeName, number: numberOf(seq), attempt: turn.attempt ?? null };
}

function blamed(head: CheckpointHead, after: Pointer | undefined, before: Pointer | undefined, nodes: Blame["nodes"]): Blame {
  const { checkpointId, number, step, at, source } = lineOf(head);
  const rest = { number, checkpointId, step, at, source, nodes };
  if (after === undefined) return { ...rest, change: "removed" };
  const upto = after.kind === "list" ? after.length : undefined;
  if (before === undefined) return { ...rest, change: "first", ...(upto !== undefined && { elements: [0, upto] as const }) };
  // A list that only grew stays in the list that it was in.
  const grew = after.kind === "list" && before.kind === "list" && after.list === before.list && after.length > before.length;
  if (grew) return { ...rest, change: "appended", elements: [before.length, after.length] as const };
  return { ...rest, change: "changed" };
}
